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

// callsLimit makes calls of one session, caller or backend up to the limit and one beyond it, all but the last of
// which hang, and then one of another session or caller.
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
	cancelled := b.count("cancelled ")
	defer func() {
		for _, c := range open {
			c.Close()
		}
		// A call outlives its connection, but not its session.
		err = errors.Join(err, end(), until(ctx, func() bool { return b.count("cancelled ") == cancelled+len(open) }))
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
		a, err := ask(b.addr, mine("echo", 0))
		if err != nil {
			return "", err
		}
		if a.StatusCode == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "" {
			return "", errors.New("there is no Retry-After")
		}
		all = append(all, name+told(a))
	}
	if whose == "backend" {
		return strings.Join(all, " "), nil
	}
	others, endOther, err := b.quotaOf(whose, endpoint, bobToken)
	if err != nil {
		return "", err
	}
	a, err := ask(b.addr, others("echo", 0))
	if err != nil {
		return "", err
	}
	return strings.Join(append(all, "other-"+told(a)), " "), endOther()
}

// told returns the outcome of a call: its status, or that it has a result.
func told(a *answer) string {
	if a.StatusCode == http.StatusOK && strings.Contains(string(a.body), `"result"`) {
		return "result"
	}
	return strconv.Itoa(a.StatusCode)
}

// quotaOf returns a function that makes calls of a session or caller of its own, and one that ends it.
func (b *bridge) quotaOf(whose, endpoint,
	token string,
) (call func(tool string, n int) *request, end func() error, err error) {
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

// hang makes a call that hangs, and returns its connection when the backend has received it.
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
