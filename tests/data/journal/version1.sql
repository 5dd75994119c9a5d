-- A journal as its first version was: a plan under way, one that has ended, an event, a setting.
CREATE TABLE plans(
  id INTEGER PRIMARY KEY AUTOINCREMENT, made_s REAL NOT NULL, ended_s REAL, state TEXT NOT NULL,
  reason TEXT NOT NULL, approved_by TEXT NOT NULL, moves INTEGER NOT NULL, snapshot TEXT NOT NULL,
  plan TEXT NOT NULL, decision TEXT NOT NULL);
CREATE INDEX plans_by_state ON plans(state);
CREATE TABLE migrations(
  id TEXT PRIMARY KEY, plan INTEGER NOT NULL REFERENCES plans(id), number INTEGER NOT NULL,
  job TEXT NOT NULL, workers INTEGER NOT NULL, state TEXT NOT NULL, ended INTEGER NOT NULL,
  began_s REAL NOT NULL, ended_s REAL, document TEXT NOT NULL);
CREATE INDEX migrations_by_plan ON migrations(plan, number);
CREATE INDEX migrations_by_end ON migrations(ended, ended_s);
CREATE TABLE steps(
  id INTEGER PRIMARY KEY AUTOINCREMENT, migration TEXT NOT NULL REFERENCES migrations(id),
  step TEXT NOT NULL, attempt INTEGER NOT NULL, began_s REAL NOT NULL, ended_s REAL,
  outcome TEXT NOT NULL);
CREATE INDEX steps_by_migration ON steps(migration);
CREATE TABLE events(
  id INTEGER PRIMARY KEY AUTOINCREMENT, time_s REAL NOT NULL, kind TEXT NOT NULL,
  text TEXT NOT NULL, data TEXT NOT NULL);
CREATE TABLE settings(key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO plans VALUES(1, 1700000000.0, 1700000060.0, 'done', '', 'ann', 2, '', '{}', '{}');
INSERT INTO plans VALUES(2, 1700000100.0, NULL, 'running', '', '', 1, '{}', '{}', '{}');
INSERT INTO events VALUES(1, 1700000000.0, 'plan', 'plan 1: 2 moves (optimal)', '{}');
INSERT INTO settings VALUES('paused', 'by ann');
PRAGMA user_version=1;
