//! A small HTTP server of the test's own: it answers as it was told to, and keeps what was posted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_testkit::DEADLINE;
use serde_json::Value;

/// What a request is met with.
#[derive(Clone, Copy)]
pub enum Answer {
    Status(u16),
    /// 200, after so long.
    After(Duration),
    /// The request is read, and nothing follows.
    Hang,
    /// A redirect to itself.
    Moved,
}

pub struct Server {
    port: u16,
    posted: Receiver<Value>,
}

impl Server {
    /// Meets requests with these one after the other, and all further ones with the last; with 200 where there is none.
    pub fn start(answers: &[Answer]) -> Server {
        let answers = if answers.is_empty() { vec![Answer::Status(200)] } else { answers.to_vec() };
        let turn = Mutex::new(0);
        Server::answering(move |stream| {
            let mut turn = turn.lock().expect("no test panics here");
            let answer = answers[(*turn).min(answers.len() - 1)];
            *turn += 1;
            drop(turn);
            match answer {
                Answer::Status(code) => say(stream, code, ""),
                Answer::Moved => say(stream, 307, "Location: /elsewhere\r\n"),
                Answer::After(wait) => {
                    std::thread::sleep(wait);
                    say(stream, 200, "");
                }
                // Until whoever asked hangs up.
                Answer::Hang => drop(stream.read(&mut [0])),
            }
        })
    }

    /// Answers when what comes with it is dropped.
    pub fn held() -> (Server, Sender<()>) {
        let (hold, held) = channel::<()>();
        let held = Mutex::new(held);
        let server = Server::answering(move |stream| {
            // It was dropped.
            let _ = held.lock().expect("no test panics here").recv();
            say(stream, 200, "");
        });
        (server, hold)
    }

    /// Nobody listens there.
    pub fn closed() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Server { port: listener.local_addr().expect("an address").port(), posted: channel().1 }
    }

    fn answering(answer: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (keep, posted) = channel();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (keep, answer) = (keep.clone(), answer.clone());
                std::thread::spawn(move || meet(stream, &keep, &*answer));
            }
        });
        Server { port, posted }
    }

    /// As it stands in the configuration.
    pub fn address(&self, form: &str) -> String {
        format!("{form}:http://127.0.0.1:{}/hook/s3cret", self.port)
    }

    /// As others see it.
    pub fn shown(&self) -> String {
        format!("json:http://127.0.0.1:{}/…", self.port)
    }

    /// The next that is posted, or was.
    #[track_caller]
    pub fn next(&self) -> Value {
        self.posted.recv_timeout(DEADLINE).expect("something is posted")
    }

    /// How many were posted and not looked at.
    pub fn left(&self) -> usize {
        self.posted.try_iter().count()
    }
}

fn meet(mut stream: TcpStream, keep: &Sender<Value>, answer: &dyn Fn(&mut TcpStream)) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let header = line.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    // The test may have ended.
    let _ = keep.send(serde_json::from_slice(&body).expect("JSON"));
    answer(&mut stream);
}

fn say(stream: &mut TcpStream, code: u16, header: &str) {
    let reason = match code {
        200 => "OK",
        _ => "Else",
    };
    // Whoever asked may have hung up.
    let _ = write!(stream, "HTTP/1.1 {code} {reason}\r\n{header}Content-Length: 3\r\nConnection: close\r\n\r\nno\n");
}
