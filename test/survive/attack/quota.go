package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// callsLimit makes calls of one session, caller or backend that hang, up to its limit. It returns the outcomes of
// further calls: just below, at and above the limit, and of another session or caller.
func callsLimit(ctx context.Context, _ *rig, b *bridge, endpoint, arg string) (found string, err error) {
	whose, number, _ := strings.Cut(arg, " ")
	most, err := strconv.Atoi(number)
	if err != nil {
		return "", err
	}
	mine, end, err := b.quotaOf(whose, endpoint, b.token)
	if err != nil {
		return "", err
	}
	var all []string
	var open []io.Closer
	canceled := b.count("canceled ")
	defer func() {
		for _, c := range open {
			c.Close()
		}
		// The end of its session cancels a call; the end of its connection does not.
		err = errors.Join(err, end(), until(ctx, func() bool { return b.count("canceled ") == canceled+len(open) }))
	}()
	for n := range most + 1 {
		if n > 0 {
			c, err := b.hang(ctx, mine("hang", n))
			if err != nil {
				return "", fmt.Errorf("call %d of %d: %w", n, most, err)
			}
			open = append(open, c)
		}
		name := map[int]string{most - 2: "below-", most - 1: "at-", most: "above-"}[n]
		if name == "" {
			continue
		}
		a, err := roundTrip(b.addr, mine("echo", 0))
		if err != nil {
			return "", err
		}
		if a.StatusCode == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "" {
			return "", errors.New("the response has no Retry-After")
		}
		all = append(all, name+callOutcome(a))
	}
	if whose == "backend" {
		return strings.Join(all, " "), nil
	}
	others, endOther, err := b.quotaOf(whose, endpoint, bobToken)
	if err != nil {
		return "", err
	}
	a, err := roundTrip(b.addr, others("echo", 0))
	if err != nil {
		return "", err
	}
	return strings.Join(append(all, "other-"+callOutcome(a)), " "), endOther()
}

// callOutcome returns "result" or the HTTP status of a call.
func callOutcome(a *answer) string {
	if a.StatusCode == http.StatusOK && strings.Contains(string(a.body), `"result"`) {
		return "result"
	}
	return strconv.Itoa(a.StatusCode)
}

// quotaOf returns a function that makes calls of a new session or of a caller, and one that ends the session.
func (b *bridge) quotaOf(whose, endpoint, token string) (
	call func(tool string, n int) *request, end func() error, err error,
) {
	q := func(body, tool string) *request {
		r := b.plain(body)
		r.set("Mcp-Protocol-Version", revision(endpoint))
		if token != "" && b.token != "" {
			r.set("Authorization", "Bearer "+token)
		}
		if whose != "session" {
			r.set("Mcp-Method", "tools/call")
			r.set("Mcp-Name", tool)
		}
		return r
	}
	if whose != "session" {
		return func(tool string, _ int) *request { return q(callOf(tool, "{}", ""), tool) },
			func() error { return nil }, nil
	}
	id, err := b.newSession(revision(endpoint))
	if err != nil {
		return nil, nil, err
	}
	call = func(tool string, n int) *request {
		r := q(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, n,
			tool), tool)
		r.set("Mcp-Session-Id", id)
		return r
	}
	return call, func() error {
		_, err := b.remove(id)
		return err
	}, nil
}

// hang makes a call that hangs, waits until the backend has received it, and returns its connection.
func (b *bridge) hang(ctx context.Context, r *request) (io.Closer, error) {
	before := b.calls()
	l, err := dial(b.addr)
	if err != nil {
		return nil, err
	}
	if _, err := l.Write(r.bytes()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := until(ctx, func() bool { return b.calls() > before }); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
