// Package http1 is HTTP/1.1 on the wire, both directions: it parses heads in
// place, reads bodies piece by piece, and writes messages out again with the
// lines that were kept. It decides nothing: which line is dropped, which
// member serves, what is sent again is the business of package proxy.
//
// # The life of an exchange
//
// A [Conn] wraps a net.Conn. [Conn.Await] waits for the first byte without
// holding a buffer; [Conn.ReadRequest] parses one head into a [Request], whose
// slices alias the read buffer until [Conn.Release]; [Body.Next] hands out the
// body piece by piece, in place, after decoding; an [Out] collects what is to
// be sent: a start line, runs of kept lines copied whole, lines of ours, and
// pieces of the body; [Conn.CopyBody] sends an Out and the rest of a body.
// A member's side is the same with [Conn.ReadReply] and a [Reply].
//
// Buffers and line tables are used again: an exchange in the steady state
// allocates nothing, and a connection that waits holds no buffer.
//
// # What is refused
//
// Whatever two readers could understand differently (RFC 9112 sections 2.2,
// 5.1, 6.1, 6.3, 7.1; request smuggling): line ends other than CRLF, folded
// lines, a blank before the colon, control bytes, Transfer-Encoding together
// with Content-Length or in HTTP/1.0 or other than exactly "chunked", a second
// Content-Length, a chunk line that is not a hexadecimal number, a missing or
// second or malformed Host. A refused message is an [*Error]; after one, or
// after any error, no further message can be read from the connection.
package http1
