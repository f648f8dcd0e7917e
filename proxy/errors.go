package proxy

// statusClientGone is logged for a request whose client went away before its
// reply was complete. It is nginx's number, and never sent.
const statusClientGone = 499
