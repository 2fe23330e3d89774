//! Whether a server of this process can be reached: a port that listens says nothing where loopback
//! is denied.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

/// Longest time for a connection on this machine.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Connects once to an own address.
pub(crate) async fn reach(address: SocketAddr) -> std::io::Result<()> {
    match tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await {
        Ok(connected) => connected.map(drop),
        Err(_) => Err(Error::new(
            ErrorKind::TimedOut,
            format!("no connection to {address} within {CONNECT_MAX:?}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_is_not_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert!(reach(address).await.is_ok());
        drop(listener);
        assert!(reach(address).await.is_err());
    }
}
