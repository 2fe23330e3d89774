//! The `mock-provider` command: serves a list of scripted replies to any client.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mock_provider::{live, script::ScriptedReply};

/// A scripted Responses provider.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the replies of a JSON file, one per request, in order.
    Serve {
        /// A JSON list of replies.
        file: PathBuf,
        /// Port on 127.0.0.1; 0 takes a free one.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Serve { file, port } = Cli::parse().command;
    match serve(&file, port).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("mock-provider: {message}");
            ExitCode::from(2)
        }
    }
}

async fn serve(file: &std::path::Path, port: u16) -> Result<(), String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
    let replies: Vec<ScriptedReply> = serde_json::from_str(&text).map_err(|error| named(&error))?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let served = live::serve(replies, address, |base_url| {
        println!("base_url = \"{base_url}\"");
    });
    tokio::select! {
        biased;
        ended = tokio::signal::ctrl_c() => ended.map_err(|error| error.to_string()),
        ended = served => ended.map_err(|error| error.to_string()),
    }
}
