// Package ajp is AJP13, the protocol between a web server and a Tomcat, as bytes:
// it writes the requests of a proxy and takes the answers of a server apart. It
// knows no connection and no HTTP text; package endpoint has the one, package
// proxy the other.
//
// A connection carries one request at a time, as packets of at most the packet
// size that both sides agree on (mod_jk.md 7):
//
//	proxy                                        server
//	12 34 len  02 FORWARD_REQUEST           →
//	12 34 len  n data (Content-Length only) →
//	                                        ←    41 42 len  06 GET_BODY_CHUNK, as often as it likes
//	12 34 len  n data, or 12 34 00 00 (end) →
//	                                        ←    41 42 len  04 SEND_HEADERS, once
//	                                        ←    41 42 len  03 SEND_BODY_CHUNK; empty: a flush
//	                                        ←    41 42 len  05 END_RESPONSE, with a flag: whether to go on
//	12 34 00 01 0A CPING                    →         between two requests
//	                                        ←    41 42 00 01 09 CPONG
//
// A [Message] collects a FORWARD_REQUEST; [AppendBody] and [Reader] do the rest.
// The server is not trusted: what breaks the form or the order of this is an
// [*Error], and then nothing more can be read from the connection.
package ajp
