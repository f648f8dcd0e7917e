package proxy

// method is a request method as far as it matters whether it may be sent twice.
type method uint8

const (
	methodOther method = iota
	methodGet
	methodHead
	methodPost
	methodPut
	methodDelete
	methodOptions
	methodTrace
	methodConnect
)

// parseMethod knows methods by name; case matters (RFC 9110, 9.1).
func parseMethod(name []byte) method {
	switch string(name) {
	case "GET":
		return methodGet
	case "HEAD":
		return methodHead
	case "POST":
		return methodPost
	case "PUT":
		return methodPut
	case "DELETE":
		return methodDelete
	case "OPTIONS":
		return methodOptions
	case "TRACE":
		return methodTrace
	case "CONNECT":
		return methodConnect
	}
	return methodOther
}

// idempotent reports whether doing it twice is meant to be the same as doing it
// once (RFC 9110, 9.2.2). No header of the client changes that (peers.md D04).
func (m method) idempotent() bool {
	switch m {
	case methodGet, methodHead, methodPut, methodDelete, methodOptions, methodTrace:
		return true
	default:
		return false
	}
}
