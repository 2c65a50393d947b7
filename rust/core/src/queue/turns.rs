//! Whose turn it is among clients: rows are shared out evenly between those who wait, however much each asks for.
//!
//! Start-time fair queueing. Each level of priority has a clock that counts rows. A request's turn is the clock's time at
//! its arrival, or the end of what its client asked for before, if that is later; the clock stands at the turn of who was
//! served last. So a client that asks for much only waits behind itself, and one that was idle saves nothing up.

use crate::Client;
use std::collections::HashMap;

/// Clients that are remembered though nothing of theirs waits, because they were served ahead.
const MOST_IDLE: usize = 1024;

/// A request's place: its client, its rows, and the level of priority that it waits on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) client: Client,
    pub(crate) rows: usize,
    pub(crate) level: usize,
}

/// The turns of all clients of a model.
#[derive(Debug)]
pub(crate) struct Turns {
    levels: Box<[Clock]>,
    /// Rows that wait, by client.
    waiting: HashMap<Client, usize>,
}

#[derive(Debug, Default)]
struct Clock {
    now: u64,
    waiting: usize,
    clients: HashMap<Client, Account>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    waiting: usize,
    /// Where what it asked for ends.
    end: u64,
    /// The turn of its last request that waits.
    last: u64,
}

impl Turns {
    pub(crate) fn new(levels: usize) -> Self {
        Self { levels: (0..levels.max(1)).map(|_| Clock::default()).collect(), waiting: HashMap::new() }
    }

    /// Rows of a client that wait.
    pub(crate) fn waiting(&self, client: Client) -> usize {
        self.waiting.get(&client).copied().unwrap_or(0)
    }

    /// A request comes. Gives its turn.
    pub(crate) fn arrived(&mut self, share: Share) -> u64 {
        *self.waiting.entry(share.client).or_default() += share.rows;
        self.clock(share.level).arrived(share.client, share.rows)
    }

    /// A request that was served comes back, to be served next: it was counted before.
    pub(crate) fn returned(&mut self, share: Share) {
        *self.waiting.entry(share.client).or_default() += share.rows;
        let clock = self.clock(share.level);
        clock.waiting += 1;
        clock.clients.entry(share.client).or_default().waiting += 1;
    }

    /// A request goes: it is served at its turn, or dropped.
    pub(crate) fn left(&mut self, share: Share, served: Option<u64>) {
        if let Some(rows) = self.waiting.get_mut(&share.client) {
            *rows = rows.saturating_sub(share.rows);
            if *rows == 0 {
                self.waiting.remove(&share.client);
            }
        }
        self.clock(share.level).left(share.client, share.rows, served);
    }

    fn clock(&mut self, level: usize) -> &mut Clock {
        let last = self.levels.len() - 1;
        &mut self.levels[level.min(last)]
    }
}

impl Clock {
    fn arrived(&mut self, client: Client, rows: usize) -> u64 {
        if self.waiting == 0 {
            // Nobody waits, so nobody is behind or ahead.
            self.clients.clear();
            self.now = 0;
        } else if self.clients.len() > self.waiting + MOST_IDLE {
            let now = self.now;
            self.clients.retain(|_, account| account.waiting > 0 || account.end > now);
            if self.clients.len() > self.waiting + MOST_IDLE {
                self.clients.retain(|_, account| account.waiting > 0);
            }
        }
        self.waiting += 1;
        let account = self.clients.entry(client).or_default();
        // In front of none of its own.
        let after = if account.waiting > 0 { account.last } else { 0 };
        let turn = self.now.max(account.end).max(after);
        *account = Account { waiting: account.waiting + 1, end: turn + rows.max(1) as u64, last: turn };
        turn
    }

    fn left(&mut self, client: Client, rows: usize, served: Option<u64>) {
        self.waiting = self.waiting.saturating_sub(1);
        self.now = self.now.max(served.unwrap_or(0));
        let Some(account) = self.clients.get_mut(&client) else { return };
        account.waiting = account.waiting.saturating_sub(1);
        if served.is_none() {
            // It got nothing for it.
            account.end = account.end.saturating_sub(rows.max(1) as u64);
        }
        if account.waiting == 0 && account.end <= self.now {
            self.clients.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What waits, in the order of its turns, as a level keeps it.
    struct Line {
        turns: Turns,
        waiting: Vec<(u64, Share, usize)>,
    }

    impl Line {
        fn new() -> Self {
            Self { turns: Turns::new(1), waiting: Vec::new() }
        }

        fn push(&mut self, client: u64, rows: usize, number: usize) {
            let share = Share { client: Client(client), rows, level: 0 };
            let turn = self.turns.arrived(share);
            let place = self.waiting.partition_point(|(other, ..)| *other <= turn);
            self.waiting.insert(place, (turn, share, number));
        }

        fn serve(&mut self) -> Option<(u64, usize, usize)> {
            if self.waiting.is_empty() {
                return None;
            }
            let (turn, share, number) = self.waiting.remove(0);
            self.turns.left(share, Some(turn));
            Some((share.client.0, share.rows, number))
        }
    }

    #[test]
    fn one_who_asks_for_much_waits_behind_itself_only() {
        let mut line = Line::new();
        (0..100).for_each(|number| line.push(1, 1, number));
        line.push(2, 1, 100);
        line.push(3, 1, 101);
        let first: Vec<u64> = (0..4).filter_map(|_| line.serve()).map(|(client, ..)| client).collect();
        assert_eq!(first, [1, 2, 3, 1]);
        assert_eq!(line.turns.waiting(Client(1)), 98);
    }

    #[test]
    fn rows_count_and_not_requests() {
        let mut line = Line::new();
        (0..20).for_each(|number| line.push(1, 8, number));
        (0..80).for_each(|number| line.push(2, 2, number));
        let mut rows = [0, 0];
        for _ in 0..50 {
            let (client, served, _) = line.serve().unwrap();
            rows[client as usize - 1] += served;
            assert!(rows[0].abs_diff(rows[1]) <= 10, "{rows:?}");
        }
    }

    #[test]
    fn what_was_dropped_is_not_counted() {
        let mut line = Line::new();
        line.push(2, 1, 0);
        (0..50).for_each(|number| line.push(1, 1, number));
        // All of them have left.
        for (_, share, _) in line.waiting.extract_if(.., |(_, share, _)| share.client == Client(1)) {
            line.turns.left(share, None);
        }
        (0..50).for_each(|number| line.push(2, 1, number));
        line.push(1, 1, 99);
        assert_eq!((0..3).filter_map(|_| line.serve()).filter(|(client, ..)| *client == 1).count(), 1);
    }

    #[test]
    fn few_are_remembered_when_each_comes_once() {
        let mut line = Line::new();
        line.push(0, 1_000_000, 0);
        line.push(0, 1, 1);
        for client in 1..10_000 {
            line.push(client, 5, 0);
            line.serve();
        }
        assert!(line.turns.levels[0].clients.len() <= MOST_IDLE + 10);
        assert!(line.turns.waiting.len() <= 3);
    }

    proptest! {
        /// Whatever comes: each client is served in its own order, none waits while another gets more than a share
        /// ahead, and in the end nothing is left.
        #[test]
        fn nobody_starves_and_each_keeps_its_order(
            steps in proptest::collection::vec(proptest::option::weighted(0.7, (0..5_u64, 1..9_usize)), 1..300),
        ) {
            let mut line = Line::new();
            let mut orders: HashMap<u64, Vec<usize>> = HashMap::new();
            // Rows that others got, each, since a client's first request waits.
            let mut since: HashMap<u64, HashMap<u64, usize>> = HashMap::new();
            let mut own: HashMap<u64, usize> = HashMap::new();
            let ends = std::iter::repeat_n(None, 400);
            for (number, step) in steps.into_iter().chain(ends).enumerate() {
                if let Some((client, rows)) = step {
                    line.push(client, rows, number);
                    continue;
                }
                let Some((client, rows, number)) = line.serve() else { continue };
                let order = orders.entry(client).or_default();
                prop_assert!(order.last().is_none_or(|last| *last < number));
                order.push(number);
                for (_, share, _) in &line.waiting {
                    let waits = share.client.0;
                    since.entry(waits).or_default();
                    own.entry(waits).or_default();
                }
                since.retain(|waits, _| line.waiting.iter().any(|(_, share, _)| share.client.0 == *waits));
                own.retain(|waits, _| since.contains_key(waits));
                for (waits, others) in &mut since {
                    if *waits == client {
                        *own.entry(client).or_default() += rows;
                    } else {
                        let got = others.entry(client).or_default();
                        *got += rows;
                        // What it got itself, and one request of each on top; one more for where it began.
                        prop_assert!(*got <= own[waits] + 3 * 8, "{client} got {got} while {waits} got {}", own[waits]);
                    }
                }
            }
            prop_assert!(line.waiting.is_empty() && line.turns.waiting.is_empty());
        }
    }
}
