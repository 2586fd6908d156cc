-- The best bid and offer over the exchanges, as each second ends
SELECT timestamp, symbol, last(bid) AS bid, last(bid_venues) AS bid_at, last(ask) AS ask, last(ask_venues) AS ask_at
FROM nbbo(TABLE books, series => symbol, venue => exchange, bid => bid, ask => ask)
SAMPLE BY 1s
ORDER BY timestamp, symbol LIMIT 10;
-- The spread in basis points: of each exchange, and of the best of all
SELECT symbol, exchange, count(*) AS books, round(avg(10000 * (ask - bid) / ask), 3) AS spread_bp
FROM (
  SELECT symbol, exchange, bid, ask FROM books
  UNION ALL
  SELECT symbol, 'all' AS exchange, bid, ask
  FROM nbbo(TABLE books, series => symbol, venue => exchange, bid => bid, ask => ask)
)
GROUP BY symbol, exchange ORDER BY symbol, exchange LIMIT 20;
-- The depth of each book now: what ten levels offer, and how much of it is bids
SELECT symbol, exchange, round(bid_depth, 8) AS bid_depth, round(ask_depth, 8) AS ask_depth,
  round(bid_depth / (bid_depth + ask_depth), 3) AS bid_share
FROM books LATEST ON timestamp PARTITION BY symbol, exchange
ORDER BY symbol, exchange LIMIT 20;
-- What trades paid beside the best bid and offer that stood, in basis points of the price between them
SELECT f.exchange, f.symbol, f.side, count(*) AS trades,
  round(avg(10000 * abs(2 * f.price / (q.bid + q.ask) - 1)), 3) AS paid_bp
FROM fills f
ASOF JOIN (SELECT * FROM nbbo(TABLE books, series => symbol, venue => exchange, bid => bid, ask => ask)) q ON (symbol)
GROUP BY f.exchange, f.symbol, f.side ORDER BY f.exchange, f.symbol, f.side
LIMIT 20;
