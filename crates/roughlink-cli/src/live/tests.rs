//! Tests of the server without a running emulation.

use super::*;
use roughlink_core::scenario::Scenario;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

pub(super) const PAIR: &str = r#"
duration = "4 s"
node = [{ name = "a" }, { name = "m" }, { name = "b" }]
[[link]]
name = "hdplc"
between = ["a", "m"]
kind = "hdplc"
[[link]]
name = "plc"
between = ["m", "b"]
rate = "2 Mbit/s"
delay = "4 ms"
# timeline
[[flow]]
name = "f"
kind = "bulk"
from = "a"
to = "b"
"#;

pub(super) fn parse(text: &str) -> Scenario {
    roughlink_scenario::parse(text, "test", &[], &|_| Err("no files".into()))
        .unwrap_or_else(|e| panic!("{e}: {text}"))
        .0
}

pub(super) fn scenario() -> Scenario {
    parse(PAIR)
}

/// Starts a server, and returns it with its address and token.
fn server() -> (Server, SocketAddr, String) {
    let door = BoundServer::open("0").unwrap();
    let (address, token) = (door.address, door.token.text().to_owned());
    (door.serve(Live::new(Arc::new(scenario()))).unwrap(), address, token)
}

/// Sends a request, and returns all that the server sends until it closes the connection.
fn ask(address: SocketAddr, line: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let text = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer); // the server may reset the connection of a refused body
    answer
}

fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

const JSON: &str = "content-type: application/json\r\n";

#[test]
fn requests_without_token_are_forbidden() {
    let (server, address, token) = server();
    for line in ["GET /", "GET /events", "POST /change", "GET /elsewhere", "PUT /"] {
        for wrong in ["", "?token=", "?token=0123456789abcdef0123456789abcdef"] {
            assert_eq!(code(&ask(address, &format!("{line}{wrong}"), JSON, "{}")), 403, "{line}{wrong}");
        }
    }
    let with = |line: &str, headers: &str| ask(address, &format!("{line}?token={token}"), headers, "");
    assert_eq!(code(&with("GET /elsewhere", "")), 404);
    assert_eq!(code(&with("GET /change", "")), 405);
    assert_eq!(code(&with("GET /", "origin: http://evil.example\r\n")), 403);
    let page = with("GET /", "");
    assert_eq!(code(&page), 200);
    let (head, text) = page.split_once("\r\n\r\n").unwrap();
    for header in ["default-src 'none'", "no-store", "no-referrer", "nosniff"] {
        assert!(head.contains(header), "{head}");
    }
    // The page has no unfilled placeholders and loads nothing from elsewhere.
    for part in
        ["{nonce}", "/*style*/", "/*script*/", "src=", "@import", "innerHTML", "insertAdjacentHTML", "outerHTML"]
    {
        assert!(!text.contains(part), "{part}");
    }
    server.finish(&0, "");
}

#[test]
fn changes_are_validated_before_they_apply() {
    let (server, address, token) = server();
    let send = |headers: &str, body: &str| ask(address, &format!("POST /change?token={token}"), headers, body);
    let right = r#"{"link": "plc", "rate": "2 Mbit/s"}"#;
    assert_eq!(code(&send(JSON, right)), 204);
    assert_eq!(code(&send("content-type: application/json; charset=utf-8\r\n", right)), 204);
    for headers in ["", "content-type: text/plain\r\n", "content-type: application/x-www-form-urlencoded\r\n"] {
        assert_eq!(code(&send(headers, right)), 415, "{headers}");
    }
    let wrong = send(JSON, r#"{"link": "plc", "rate": "2 Mbit"}"#);
    assert!(code(&wrong) == 400 && wrong.contains("rate: "), "{wrong}");
    assert_eq!(code(&send(JSON, "\u{0}\u{ffff}{")), 400);
    assert_eq!(code(&send(JSON, &" ".repeat(MAX_CHANGE + 1))), 413);
    let medium = send(JSON, r#"{"link": "hdplc", "rate": "2 Mbit/s"}"#);
    assert!(code(&medium) == 409 && medium.contains("power-line medium"), "{medium}");
    // In this test, no loop applies the changes.
    let codes: Vec<u16> = (0..100).map(|_| code(&send(JSON, right))).collect();
    assert_eq!((codes[0], codes[99]), (204, 503));
    server.finish(&0, "");
}

/// Viewers receive the start and the end. The server ends even if some viewers read nothing.
#[test]
fn viewers_receive_the_start_and_the_end() {
    let (server, address, token) = server();
    let request = format!("GET /events?token={token} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let open = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        (stream, String::from_utf8_lossy(&first).into_owned())
    };
    let mut viewers: Vec<_> = (0..feed::MAX_VIEWERS).map(|_| open()).collect();
    assert!(viewers.iter().all(|(_, first)| first == "HTTP/1.1 200"), "{viewers:?}");
    assert_eq!(open().1, "HTTP/1.1 503");
    // A viewer that leaves makes room for another.
    viewers.pop();
    let again = (0..500).any(|_| {
        thread::sleep(Duration::from_millis(10));
        open().1 == "HTTP/1.1 200"
    });
    assert!(again, "the viewer that left is still counted");
    server.finish(&"what came of it", "timeline = []");
    let mut text = String::new();
    viewers[0].0.read_to_string(&mut text).unwrap();
    for part in ["event: start", r#""name":"plc""#, r#""rate":[false,false]"#, "event: end", "what came of it"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(TcpStream::connect(address).is_err(), "it still listens");
}

#[test]
fn invalid_and_occupied_addresses_are_rejected() {
    let message = |text| match BoundServer::open(text) {
        Ok(_) => panic!("{text}"),
        Err(Failure::Lab(e)) => e.to_string(),
        Err(Failure::Machine(message, help)) => format!("{message}; {}", help.unwrap_or_default()),
        Err(e) => panic!("{e:?}"),
    };
    for wrong in ["", "my.toml", "127.0.0.1", "localhost:80", "70000", "1.2.3.4:x"] {
        assert!(message(wrong).contains("expected an address with a port"), "{wrong}");
    }
    assert!(message("192.0.2.1:0").contains("an address of this machine"));
    let door = BoundServer::open("127.0.0.1:0").unwrap();
    assert!(!door.is_open() && door.url().starts_with("http://127.0.0.1:"), "{}", door.url());
    assert!(message(&door.address.to_string()).contains("another port"));
    let open = BoundServer::open("0.0.0.0:0").unwrap();
    assert!(open.is_open() && open.url().starts_with("http://127.0.0.1:"));
}
