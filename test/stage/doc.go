// Package stage is what tests on real processes share: it builds the commands,
// starts and ends processes, asks the demo application as a browser does, and
// keeps the account of clients that count while nodes die.
//
// It imports nothing of ours: what it asserts, a user could see.
//
//	build.go    the commands, built once per test binary
//	process.go  start, stop, kill, freeze; the output
//	client.go   a browser: cookie, reply, which member answered
//	count.go    a counting client and what it may see (design 5)
//	metric.go   one number of /metrics, one page
//	mark.go     what a process holds, and that it gives it back
//	addr.go     addresses on loopback
package stage
