//! Lines in, JSON lines out: what every adapter over pipes shares.

use std::io;

use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{mpsc, oneshot},
};

/// The longest line that is taken, in bytes. A tool's output stands in one line, so this is generous.
pub const MAX_LINE: usize = 64 * 1024 * 1024;

/// One line of a child's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line without its end; bytes that are not UTF-8 are replaced.
    Text(String),
    /// A line over the bound: its bytes were thrown away as they came, the next line follows.
    TooLong {
        /// How long it was, in bytes.
        bytes: u64,
    },
}

/// Reads lines with a bound: memory never grows with what a child writes.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: BufReader<R>,
    limit: usize,
    line: Vec<u8>,
    skipped: u64,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// With [`MAX_LINE`] as bound.
    pub fn new(reader: R) -> Self {
        Self::with_limit(reader, MAX_LINE)
    }

    /// With a bound of `limit` bytes per line.
    pub fn with_limit(reader: R, limit: usize) -> Self {
        Self { reader: BufReader::with_capacity(64 * 1024, reader), limit, line: Vec::new(), skipped: 0 }
    }

    /// The next line; `None` at the end. A last line without an end counts. Cancel-safe.
    ///
    /// # Errors
    /// The pipe could not be read.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                let nothing = self.line.is_empty() && self.skipped == 0;
                return Ok(if nothing { None } else { Some(self.take()) });
            }
            if let Some(line) = self.read_on() {
                return Ok(Some(line));
            }
        }
    }

    /// The next line if all of it has been read from the pipe already; never waits. So a reader that was woken takes what
    /// came together.
    pub fn ready(&mut self) -> Option<Line> {
        self.reader.buffer().contains(&b'\n').then(|| self.read_on()).flatten()
    }

    /// Goes on with what is in the buffer: to the next line's end, which gives the line, else to the buffer's.
    fn read_on(&mut self) -> Option<Line> {
        let chunk = self.reader.buffer();
        let end = chunk.iter().position(|b| *b == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let used = part.len() + usize::from(end.is_some());
        if self.skipped > 0 || self.line.len() + part.len() > self.limit {
            self.skipped += (self.line.len() + part.len()) as u64;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
        self.reader.consume(used);
        end.is_some().then(|| self.take())
    }

    fn take(&mut self) -> Line {
        if self.skipped > 0 {
            return Line::TooLong { bytes: std::mem::take(&mut self.skipped) };
        }
        let mut bytes = std::mem::take(&mut self.line);
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        Line::Text(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }
}

type Order = (Vec<u8>, oneshot::Sender<io::Result<()>>);

/// Writes JSON values, one a line, from a task of its own: a caller that gives up half way never leaves half a line behind.
/// The pipe closes when the last clone is dropped, or at [`JsonWriter::close`].
#[derive(Debug, Clone)]
pub struct JsonWriter {
    orders: mpsc::Sender<Option<Order>>,
}

impl JsonWriter {
    /// Takes the pipe. Needs a tokio runtime.
    pub fn new(mut pipe: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (orders, mut inbox) = mpsc::channel::<Option<Order>>(64);
        tokio::spawn(async move {
            while let Some(Some((bytes, done))) = inbox.recv().await {
                let result = async {
                    pipe.write_all(&bytes).await?;
                    pipe.flush().await
                };
                // Nobody waits any more: the line is out all the same.
                let _ = done.send(result.await);
            }
        });
        Self { orders }
    }

    /// Writes one value as one line; `Ok` means that its bytes left us (T2 "written").
    ///
    /// # Errors
    /// The value is no JSON, or the pipe is closed.
    pub async fn write(&self, value: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(value)?;
        bytes.push(b'\n');
        let (done, answer) = oneshot::channel();
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.orders.send(Some((bytes, done))).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Closes the pipe after what was written before; later writes fail.
    pub async fn close(&self) {
        // An error means that it is closed already.
        let _ = self.orders.send(None).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_split_at_newlines_only_and_the_last_needs_none() {
        let text = "one\r\n\ntwo\u{2028}still two\nlast";
        let mut reader = LineReader::with_limit(text.as_bytes(), 100);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(line);
        }
        let expected = ["one", "", "two\u{2028}still two", "last"].map(|t| Line::Text(t.into()));
        assert_eq!(lines, expected);
    }

    #[tokio::test]
    async fn what_has_come_whole_is_ready_and_half_a_line_is_not() {
        let (theirs, mut ours) = tokio::io::duplex(64);
        let mut reader = LineReader::with_limit(theirs, 8);
        assert_eq!(reader.ready(), None);
        ours.write_all(b"one\ntwo\nmuch too long\nha").await.unwrap();
        assert_eq!(reader.next().await.unwrap(), Some(Line::Text("one".into())));
        assert_eq!(reader.ready(), Some(Line::Text("two".into())));
        assert_eq!(reader.ready(), Some(Line::TooLong { bytes: 13 }));
        assert_eq!(reader.ready(), None);
        ours.write_all(b"lf\n").await.unwrap();
        assert_eq!(reader.ready(), None);
        assert_eq!(reader.next().await.unwrap(), Some(Line::Text("half".into())));
        drop(ours);
        assert_eq!((reader.ready(), reader.next().await.unwrap()), (None, None));
    }

    #[tokio::test]
    async fn a_line_over_the_bound_is_reported_and_the_next_one_is_whole() {
        let text = format!("{}\nok\n{}", "x".repeat(300_000), "y".repeat(1001));
        let mut reader = LineReader::with_limit(text.as_bytes(), 1000);
        assert_eq!(reader.next().await.unwrap(), Some(Line::TooLong { bytes: 300_000 }));
        assert!(reader.line.capacity() <= 1000);
        assert_eq!(reader.next().await.unwrap(), Some(Line::Text("ok".into())));
        assert_eq!(reader.next().await.unwrap(), Some(Line::TooLong { bytes: 1001 }));
        assert_eq!(reader.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_writer_given_up_half_way_leaves_whole_lines_and_close_ends_the_pipe() {
        let (ours, theirs) = tokio::io::duplex(16);
        let writer = JsonWriter::new(ours);
        let long = "z".repeat(1000);
        // Nobody reads: this write cannot finish, and is given up.
        let cut = tokio::time::timeout(std::time::Duration::from_millis(20), writer.write(&long)).await;
        assert!(cut.is_err());
        let reading = tokio::spawn(async move {
            let mut reader = LineReader::new(theirs);
            let first = reader.next().await.unwrap();
            let second = reader.next().await.unwrap();
            (first, second, reader.next().await.unwrap())
        });
        writer.write(&1).await.unwrap();
        writer.close().await;
        let (first, second, end) = reading.await.unwrap();
        assert_eq!(first, Some(Line::Text(format!("\"{long}\""))));
        assert_eq!((second, end), (Some(Line::Text("1".into())), None));
        assert_eq!(writer.write(&2).await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
