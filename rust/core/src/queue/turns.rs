//! Fair queueing between clients: rows are shared evenly between waiting clients.
//!
//! This is start-time fair queueing. Each priority level has a clock that counts rows. The turn of a request is the
//! clock's time at its arrival, or the end of its client's previous request if that is later. The clock stands at the
//! turn of the last served request. A client with many rows delays itself only. An idle client earns no credit.

use crate::Client;
use std::collections::HashMap;

/// Maximum number of idle clients to remember, because they were served ahead.
const MAX_IDLE: usize = 1024;

/// Client, rows and level of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) client: Client,
    pub(crate) rows: usize,
    pub(crate) level: usize,
}

/// Turns of a model's clients.
#[derive(Debug)]
pub(crate) struct Turns {
    levels: Box<[Clock]>,
    /// Waiting rows by client.
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
    /// End of the client's last request.
    end: u64,
    /// Turn of the client's last waiting request.
    last: u64,
}

impl Turns {
    pub(crate) fn new(levels: usize) -> Self {
        Self { levels: (0..levels.max(1)).map(|_| Clock::default()).collect(), waiting: HashMap::new() }
    }

    /// Waiting rows of a client.
    pub(crate) fn waiting(&self, client: Client) -> usize {
        self.waiting.get(&client).copied().unwrap_or(0)
    }

    /// Records an arrival; returns its turn.
    pub(crate) fn arrived(&mut self, share: Share) -> u64 {
        *self.waiting.entry(share.client).or_default() += share.rows;
        self.clock(share.level).arrived(share.client, share.rows)
    }

    /// Records a request that was served and comes back to the front. Its rows were counted before.
    pub(crate) fn returned(&mut self, share: Share) {
        *self.waiting.entry(share.client).or_default() += share.rows;
        let clock = self.clock(share.level);
        clock.waiting += 1;
        clock.clients.entry(share.client).or_default().waiting += 1;
    }

    /// Records that a request was served at its turn, or dropped.
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
            // Without waiting clients there is no debt and no credit.
            self.clients.clear();
            self.now = 0;
        } else if self.clients.len() > self.waiting + MAX_IDLE {
            let now = self.now;
            self.clients.retain(|_, account| account.waiting > 0 || account.end > now);
            if self.clients.len() > self.waiting + MAX_IDLE {
                self.clients.retain(|_, account| account.waiting > 0);
            }
        }
        self.waiting += 1;
        let account = self.clients.entry(client).or_default();
        // Not before the client's own requests.
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
            // A dropped request costs its client nothing.
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

    /// Waiting requests in the order of their turns, as in a level.
    struct FairQueue {
        turns: Turns,
        waiting: Vec<(u64, Share, usize)>,
    }

    impl FairQueue {
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
    fn client_with_many_requests_delays_only_itself() {
        let mut queue = FairQueue::new();
        (0..100).for_each(|number| queue.push(1, 1, number));
        queue.push(2, 1, 100);
        queue.push(3, 1, 101);
        let first: Vec<u64> = (0..4).filter_map(|_| queue.serve()).map(|(client, ..)| client).collect();
        assert_eq!(first, [1, 2, 3, 1]);
        assert_eq!(queue.turns.waiting(Client(1)), 98);
    }

    #[test]
    fn fair_share_counts_rows_not_requests() {
        let mut queue = FairQueue::new();
        (0..20).for_each(|number| queue.push(1, 8, number));
        (0..80).for_each(|number| queue.push(2, 2, number));
        let mut rows = [0, 0];
        for _ in 0..50 {
            let (client, served, _) = queue.serve().unwrap();
            rows[client as usize - 1] += served;
            assert!(rows[0].abs_diff(rows[1]) <= 10, "{rows:?}");
        }
    }

    #[test]
    fn dropped_requests_do_not_count_toward_the_share() {
        let mut queue = FairQueue::new();
        queue.push(2, 1, 0);
        (0..50).for_each(|number| queue.push(1, 1, number));
        // All of them were abandoned.
        for (_, share, _) in queue.waiting.extract_if(.., |(_, share, _)| share.client == Client(1)) {
            queue.turns.left(share, None);
        }
        (0..50).for_each(|number| queue.push(2, 1, number));
        queue.push(1, 1, 99);
        assert_eq!((0..3).filter_map(|_| queue.serve()).filter(|(client, ..)| *client == 1).count(), 1);
    }

    #[test]
    fn clients_with_one_request_each_are_forgotten() {
        let mut queue = FairQueue::new();
        queue.push(0, 1_000_000, 0);
        queue.push(0, 1, 1);
        for client in 1..10_000 {
            queue.push(client, 5, 0);
            queue.serve();
        }
        assert!(queue.turns.levels[0].clients.len() <= MAX_IDLE + 10);
        assert!(queue.turns.waiting.len() <= 3);
    }

    proptest! {
        /// For any arrivals: each client is served in order, no waiting client falls behind by more than a share, and
        /// at the
        /// end nothing is left.
        #[test]
        fn no_client_starves_and_each_is_served_in_order(
            steps in proptest::collection::vec(proptest::option::weighted(0.7, (0..5_u64, 1..9_usize)), 1..300),
        ) {
            let mut queue = FairQueue::new();
            let mut orders: HashMap<u64, Vec<usize>> = HashMap::new();
            // Rows that others got since a client's first request waits.
            let mut since: HashMap<u64, HashMap<u64, usize>> = HashMap::new();
            let mut own: HashMap<u64, usize> = HashMap::new();
            let ends = std::iter::repeat_n(None, 400);
            for (number, step) in steps.into_iter().chain(ends).enumerate() {
                if let Some((client, rows)) = step {
                    queue.push(client, rows, number);
                    continue;
                }
                let Some((client, rows, number)) = queue.serve() else { continue };
                let order = orders.entry(client).or_default();
                prop_assert!(order.last().is_none_or(|last| *last < number));
                order.push(number);
                for (_, share, _) in &queue.waiting {
                    let waits = share.client.0;
                    since.entry(waits).or_default();
                    own.entry(waits).or_default();
                }
                since.retain(|waits, _| queue.waiting.iter().any(|(_, share, _)| share.client.0 == *waits));
                own.retain(|waits, _| since.contains_key(waits));
                for (waits, others) in &mut since {
                    if *waits == client {
                        *own.entry(client).or_default() += rows;
                    } else {
                        let got = others.entry(client).or_default();
                        *got += rows;
                        // Its own rows, one request of each client on top, and one more for the start.
                        prop_assert!(*got <= own[waits] + 3 * 8, "{client} got {got} while {waits} got {}", own[waits]);
                    }
                }
            }
            prop_assert!(queue.waiting.is_empty() && queue.turns.waiting.is_empty());
        }
    }
}
