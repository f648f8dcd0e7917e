// Package accesslog writes one line for each request, in the Common Log Format,
// in the combined one, or as JSON (docs/logs.md has an example of each).
//
// # Nothing waits for a disk
//
// A line is appended to a buffer; one goroutine writes what has gathered there.
// The first line after a pause is written at once, the next ones together after
// at most 200 ms, or when they are 64 KiB. While the file cannot be written as
// fast as lines come, up to Config.MaxPending bytes of them wait; then lines are
// dropped and counted ([Stats]). So a disk that is full, or a pipe that nobody
// reads, costs lines and never a request.
//
// # What does not stand in it
//
// Whatever came from outside is escaped: a line has printable ASCII and nothing
// else, so nobody can add a line, end a quoted field or move a cursor. Session
// ids are left out wherever they could stand (design D1): path parameters are cut
// from paths and from the Referer, and in queries, which are only logged on
// request, the session's value is replaced, also in a link inside of a query.
// Cookies are not logged at all.
package accesslog
