package jsonrpc

// IsID reports whether a JSON token can be the id of a message, or a progress token: a string or an integer.
func IsID(token []byte) bool { return checkID(token) == nil }
