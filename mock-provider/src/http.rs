//! Whole-body replies on wiremock: one long-lived server for many cases.
//!
//! Gates, cuts, stalls and dropped connections belong to [`crate::live`]; here they would be
//! answered with a 500 that says so.

use std::net::TcpListener;

use socket2::SockRef;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Respond, ResponseTemplate};

use crate::case::{CaseHandle, Registry};
use crate::journal::Request;
use crate::script::{Body, Ending, Planned, compact_body, is_compact_path};
use crate::sse;

/// A server of whole bodies.
#[derive(Debug)]
pub struct Server {
    server: MockServer,
    registry: Registry,
}

impl Server {
    /// Starts on a free port of 127.0.0.1. An error means that loopback is denied.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        // Inherited by accepted sockets; without it small replies wait for an acknowledgement.
        SockRef::from(&listener).set_tcp_nodelay(true)?;
        let server = MockServer::builder()
            .listener(listener)
            .disable_request_recording()
            .start()
            .await;
        let registry = Registry::default();
        Mock::given(any())
            .respond_with(Responder(registry.clone()))
            .mount(&server)
            .await;
        crate::reach::reach(*server.address()).await?;
        Ok(Self { server, registry })
    }

    /// Opens a case under a key that is unique among the open cases.
    pub fn open_case(&self, key: &str) -> CaseHandle {
        self.registry.open(key, &self.server.uri())
    }
}

struct Responder(Registry);

impl Respond for Responder {
    fn respond(&self, request: &wiremock::Request) -> ResponseTemplate {
        let Some((case, path)) = self.0.find(&path_and_query(request)) else {
            return template(&Planned::error(404, "no such case"), "");
        };
        let headers = request
            .headers
            .iter()
            .map(|(name, value)| {
                (
                    name.as_str().to_owned(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            })
            .collect();
        let received = Request {
            method: request.method.to_string(),
            path: path.clone(),
            headers,
            body: request.body.clone().into(),
        };
        let (_, planned) = case.answer(received);
        template(&planned, &path)
    }
}

fn path_and_query(request: &wiremock::Request) -> String {
    match request.url.query() {
        Some(query) => format!("{}?{query}", request.url.path()),
        None => request.url.path().to_owned(),
    }
}

fn template(planned: &Planned, path: &str) -> ResponseTemplate {
    match &planned.body {
        Body::Stream {
            headers,
            events,
            ending: Ending::Complete,
            gate_after_events: None,
        } => {
            let template = if is_compact_path(path) {
                let body = compact_body(events).to_string().into_bytes();
                ResponseTemplate::new(200).set_body_raw(body, "application/json")
            } else {
                let body = sse::encode_all(events).to_vec();
                ResponseTemplate::new(200).set_body_raw(body, "text/event-stream")
            };
            with_headers(template, headers)
        }
        Body::Http {
            status,
            headers,
            body,
        } => {
            let kind = headers
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
                .map_or("application/json", |(_, value)| value.as_str());
            let template =
                ResponseTemplate::new(*status).set_body_raw(body.clone().into_bytes(), kind);
            with_headers(template, headers)
        }
        Body::Stream { .. } | Body::DropConnection => template(
            &Planned::error(500, "this reply needs the live adapter"),
            path,
        ),
    }
}

fn with_headers(template: ResponseTemplate, headers: &[(String, String)]) -> ResponseTemplate {
    headers
        .iter()
        .filter(|(name, _)| !name.eq_ignore_ascii_case("content-type"))
        .fold(template, |template, (name, value)| {
            template.append_header(name.as_str(), value.as_str())
        })
}
