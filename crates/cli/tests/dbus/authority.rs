//! polkit, played: it answers as the test wants, and keeps what it was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use zbus::connection::Builder;
use zbus::zvariant::OwnedValue;

use super::bus::Bus;

/// What it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// Asks the user, who takes for ever.
    AskUser,
}

/// A question.
#[derive(Debug, Clone)]
pub struct Asked {
    pub subject: String,
    pub name: String,
    pub action: String,
    pub interactive: bool,
}

/// What it was asked.
#[derive(Debug, Default)]
pub struct Seen {
    pub asked: Vec<Asked>,
    pub taken_back: Vec<String>,
}

/// It ends with the value.
pub struct Authority {
    pub seen: Arc<Mutex<Seen>>,
    over: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Object {
    answer: Answer,
    seen: Arc<Mutex<Seen>>,
}

#[zbus::interface(name = "org.freedesktop.PolicyKit1.Authority")]
impl Object {
    async fn check_authorization(
        &self,
        subject: (String, HashMap<String, OwnedValue>),
        action: String,
        _details: HashMap<String, String>,
        flags: u32,
        question: String,
    ) -> (bool, bool, HashMap<String, String>) {
        let name = subject.1.get("name");
        let name = name.and_then(|name| name.downcast_ref::<String>().ok());
        let interactive = flags & 1 != 0;
        self.seen.lock().unwrap().asked.push(Asked {
            subject: subject.0,
            name: name.unwrap_or_default(),
            action,
            interactive,
        });
        match (self.answer, interactive) {
            (Answer::Yes, _) => (true, false, HashMap::new()),
            (Answer::No, _) => (false, false, HashMap::new()),
            (Answer::AskUser, false) => (false, true, HashMap::new()),
            (Answer::AskUser, true) => {
                assert!(!question.is_empty());
                std::future::pending().await
            }
        }
    }

    async fn cancel_check_authorization(&self, question: String) {
        self.seen.lock().unwrap().taken_back.push(question);
    }
}

impl Authority {
    pub fn start(bus: &Bus, answer: Answer) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let object = Object {
            answer,
            seen: seen.clone(),
        };
        let address = bus.address();
        let (over, ends) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(async {
                let connection = Builder::address(address.as_str()).unwrap();
                let connection = connection
                    .serve_at("/org/freedesktop/PolicyKit1/Authority", object)
                    .and_then(|connection| connection.name("org.freedesktop.PolicyKit1"));
                let _connection = connection.unwrap().build().await.unwrap();
                ready.send(()).unwrap();
                let _ = ends.await;
            });
        });
        is_ready.recv().unwrap();
        Self {
            seen,
            over: Some(over),
            thread: Some(thread),
        }
    }

    /// What it was asked, so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().asked.clone()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.over = None;
        let _ = self.thread.take().unwrap().join();
    }
}
