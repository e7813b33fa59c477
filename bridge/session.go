package bridge

import "context"

type sessionKey struct{}

// WithSession says in which session or on which connection of a front a Call comes. Two Calls of one session have one caller, also where
// nobody says who that is.
func WithSession(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionOf returns the session of a Call, or "" if it has none: then its caller is known by its principal alone.
func SessionOf(ctx context.Context) string {
	id, _ := ctx.Value(sessionKey{}).(string)
	return id
}
