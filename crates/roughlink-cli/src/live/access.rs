//! Access control: a request needs the token and must not come from a page of another site. A page of another site
//! cannot read the token but could guess the port. Its requests carry the origin of the site or, if the site's name was
//! redirected to this machine (DNS rebinding), this name as the host. Both are refused before anything else is checked.

use axum::http::{HeaderMap, Uri, header};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Secret in the URL: 128 random bits in hexadecimal.
pub(super) struct Token(String);

impl Token {
    pub(super) fn new() -> io::Result<Self> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).map_err(|e| io::Error::other(format!("cannot generate a token: {e}")))?;
        Ok(Token(bits.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not depend on the number of correct characters.
    fn is(&self, other: &str) -> bool {
        let differ = self.0.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        self.0.len() == other.len() && differ == 0
    }
}

/// Returns the reason for which a request is refused, if any.
pub(super) fn refusal(token: &Token, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    if !is_here(host) {
        return Some("open the page by IP address or as localhost: use the URL that the command printed");
    }
    if text(header::ORIGIN).is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
        return Some("refused: the request comes from a page of another site");
    }
    let given = uri.query().unwrap_or_default().split('&').find_map(|part| part.strip_prefix("token="));
    if !given.is_some_and(|given| token.is(given)) {
        return Some("the token is missing or wrong: use the URL that the command printed");
    }
    None
}

/// Returns true if a host is an IP address, which DNS cannot redirect, or `localhost`.
fn is_here(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    host.parse::<SocketAddr>().is_ok()
        || in_brackets.unwrap_or(host).parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str, headers: &[(&'static str, &'static str)]) -> Option<&'static str> {
        let token = Token("00ff".into());
        let headers = headers.iter().map(|&(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        refusal(&token, &format!("/change{query}").parse().unwrap(), &headers)
    }

    #[test]
    fn access_needs_the_complete_token() {
        let from = [("host", "127.0.0.1:8080")];
        assert_eq!(refused("?token=00ff", &from), None);
        assert_eq!(refused("?a=b&token=00ff&c", &from), None);
        for wrong in
            ["", "?", "?token", "?token=", "?token=00f", "?token=00ff0", "?token=00FF", "?xtoken=00ff", "?token=00fe"]
        {
            assert!(refused(wrong, &from).is_some_and(|why| why.contains("token")), "{wrong}");
        }
    }

    #[test]
    fn tokens_differ() {
        let [a, b] = [(); 2].map(|()| Token::new().unwrap());
        assert_eq!(a.text().len(), 32);
        assert!(a.text() != b.text() && a.is(a.text()) && !a.is(b.text()));
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let right = "?token=00ff";
        for host in ["127.0.0.1", "127.0.0.1:1", "[::1]:8080", "[::1]", "localhost", "LOCALHOST:80", "192.0.2.7:8080"] {
            assert_eq!(refused(right, &[("host", host)]), None, "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example:80", "::1:x"]
        {
            assert!(refused(right, &[("host", host)]).is_some(), "{host}");
        }
        assert!(refused(right, &[]).is_some());
        let at = |origin| refused(right, &[("host", "127.0.0.1:8080"), ("origin", origin)]);
        assert_eq!(at("http://127.0.0.1:8080"), None);
        for origin in [
            "null",
            "",
            "https://127.0.0.1:8080",
            "http://127.0.0.1:8081",
            "http://localhost:8080",
            "http://evil.example",
        ] {
            assert!(at(origin).is_some_and(|why| why.contains("another site")), "{origin}");
        }
    }
}
