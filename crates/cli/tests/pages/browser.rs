//! A headless Chromium, driven by the DevTools protocol over a pipe: JSON, each message ended by a NUL
//! (`--remote-debugging-pipe`). Pages forbid scripts other than their own, and the protocol runs beside them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last: u64,
    session: Value,
}

impl Browser {
    /// A browser with one empty tab; the error says why there is none. `profile`: an empty folder.
    pub fn start(profile: &Path) -> Result<Self, String> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let found = names.into_iter().find(|name| {
            let version = Command::new(name).arg("--version").output();
            version.is_ok_and(|ended| ended.status.success())
        });
        let name = found.ok_or_else(|| format!("there is none of {}", names.join(", ")))?;
        // The protocol is on descriptors 3 and 4; a shell puts the pipes there.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2", name])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
            ])
            .args(["--no-first-run", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let to = child.stdin.take().ok_or("no pipe")?;
        let from = messages(child.stdout.take().ok_or("no pipe")?);
        let mut browser = Self {
            child,
            to,
            from,
            last: 0,
            session: Value::Null,
        };
        let tab = browser.ask("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": tab["targetId"], "flatten": true});
        browser.session = browser.ask("Target.attachToTarget", attach)?["sessionId"].clone();
        browser.ask("Page.enable", json!({}))?;
        Ok(browser)
    }

    /// The answer to a command.
    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let text = format!("{message}\0");
        let written = self.to.write_all(text.as_bytes());
        written.map_err(|error| format!("{method}: {error}"))?;
        let id = json!(self.last);
        let answer = self.wait(method, |message| message["id"] == id)?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(answer["result"].clone()),
        }
    }

    fn wait(&self, why: &str, is: impl Fn(&Value) -> bool) -> Result<Value, String> {
        loop {
            let message = self.from.recv_timeout(PATIENCE);
            let message = message.map_err(|error| format!("{why}: {error}"))?;
            if is(&message) {
                return Ok(message);
            }
        }
    }

    /// Shows this file in a window of this size until it is loaded. `media`: `screen` or `print`.
    pub fn open(
        &mut self,
        file: &Path,
        size: (u32, u32),
        media: &str,
        dark: bool,
    ) -> Result<(), String> {
        let (width, height) = size;
        let window =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", window)?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask(
            "Emulation.setEmulatedMedia",
            json!({"media": media, "features": features}),
        )?;
        let url = format!("file://{}", file.display());
        self.ask("Page.navigate", json!({ "url": url }))?;
        let loaded = |message: &Value| message["method"] == "Page.loadEventFired";
        self.wait(&url, loaded).map(|_| ())
    }

    /// What a script gives, as JSON.
    pub fn evaluate(&mut self, script: &str) -> Result<Value, String> {
        let answer = json!({"expression": script, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", answer)?;
        match answer.get("exceptionDetails") {
            Some(why) => Err(why.to_string()),
            None => Ok(answer["result"]["value"].clone()),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its other processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn messages(pipe: impl std::io::Read + Send + 'static) -> Receiver<Value> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(pipe).split(0).map_while(Result::ok) {
            let Ok(message) = serde_json::from_slice(&message) else {
                return;
            };
            if send.send(message).is_err() {
                return;
            }
        }
    });
    receive
}
