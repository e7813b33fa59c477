package bridge

import "context"

type sessionKey struct{}

// WithSession says in which session or on which connection of a front a Call comes. Two Calls of one session have one caller, also where
// nobody says who that is.
//
// It is not in the Call, because Handlers in between make Calls of their own for the caller, which come in the same session: for lists that
// they need to know, for instance. One that forgot to pass it on would have a server that keeps sessions begin another.
func WithSession(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionOf returns the session of a Call, or "" if it has none: then its caller is known by its principal alone.
func SessionOf(ctx context.Context) string {
	id, _ := ctx.Value(sessionKey{}).(string)
	return id
}
