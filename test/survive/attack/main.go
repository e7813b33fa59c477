// Command attack runs the rows of attacks.yaml against the real bridge, and reports those that fail.
//
//	go run ./attack -bin ../../bin/mcpbridge [-only C01,F] [-v] [-keep]
//
// After each input, the process must run, the next request on the same connection must succeed, the backend must have
// received the expected number of calls (usually none), and no file and no memory may have leaked. At the end, no log
// may contain a forged line, and no output a secret. A row that cannot run fails. The exit code is 1 if a row fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"
)

// The secrets are random, so that a secret that is found was leaked in this run.
var (
	aliceToken = canary("alice")
	bobToken   = canary("bob")
)

func main() {
	if journal := os.Getenv(journalVar); journal != "" {
		os.Exit(backend(journal))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

// A rig is the environment of the rows.
type rig struct {
	bin, dir, root string
	issuer         *issuer
	bridges        map[string]*bridge
	funcs          template.FuncMap
	verbose        bool

	mu     sync.Mutex // guards what follows
	checks int
	places int // searched for secrets
	leaked int // places that contain a secret
	failed []string
}

// printf prints a line.
func (r *rig) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

// check counts a check, and reports it as failed if err is not nil.
func (r *rig) check(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks++
	if err != nil {
		r.failed = append(r.failed, what+": "+err.Error())
		fmt.Println("FAIL", what+":", err)
	} else if r.verbose {
		fmt.Println("ok  ", what)
	}
}

func run(ctx context.Context) error {
	r := &rig{bridges: map[string]*bridge{}}
	only := flag.String("only", "", "comma-separated ids or letters of the rows to run")
	keep := flag.Bool("keep", false, "keep the files of the bridges")
	flag.StringVar(&r.bin, "bin", "../../bin/mcpbridge", "the mcpbridge to attack")
	flag.StringVar(&r.root, "root", "../..", "the repository, which has the Go tests")
	flag.BoolVar(&r.verbose, "v", false, "print every check")
	flag.Parse()
	t, err := load(attacks)
	if err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp("", "attack"); err != nil {
		return err
	}
	if *keep {
		fmt.Println("files are in", r.dir)
	} else {
		defer os.RemoveAll(r.dir)
	}
	if r.bin, err = filepath.Abs(r.bin); err != nil {
		return err
	}
	if r.issuer, err = newIssuer(); err != nil {
		return err
	}
	defer r.issuer.close()
	r.funcs = r.issuer.funcs()
	if err := r.startAll(ctx); err != nil {
		return errors.Join(err, r.stopAll())
	}
	began := time.Now()
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(row Row) bool { return *only != "" && !wanted(*only, row.ID) })
	proofs := r.prove(ctx, rows)
	var slow sync.WaitGroup
	for i := range rows {
		r.runRow(ctx, &rows[i], &slow)
	}
	slow.Wait()
	proofs.Wait()
	for _, name := range bridgeNames {
		b := r.bridges[name]
		r.check("log of "+name, b.checkLog())
		r.check("secrets in "+name, r.leaks(b))
	}
	for _, name := range bridgeNames {
		r.check("end of "+name, r.bridges[name].stop())
		delete(r.bridges, name)
	}
	ids := map[string]bool{}
	for _, f := range r.failed {
		id, _, _ := strings.Cut(f, " ")
		ids[id] = true
	}
	fmt.Printf("S6 %d places, %d with a secret\n", r.places, r.leaked)
	fmt.Printf("S1 rows %d, checks %d, failed %d in %d rows, %.0f s\n", len(rows), r.checks, len(r.failed), len(ids),
		time.Since(began).Seconds())
	if len(r.failed) > 0 {
		return errors.New("some rows failed")
	}
	return nil
}

func wanted(only, id string) bool {
	return slices.ContainsFunc(strings.Split(only, ","), func(p string) bool { return strings.HasPrefix(id, p) })
}

var bridgeNames = []string{
	"open", "auth", "limits", "auth-limits", "slow", "flooded", "flooded-tls", "stdio24",
	"stdio03", "stdio06", "stdio11", "stdio07",
}

func (r *rig) startAll(ctx context.Context) error {
	for _, name := range bridgeNames {
		b, err := start(ctx, r.bin, r.dir, name, r.issuer.url)
		if err != nil {
			return err
		}
		r.bridges[name] = b
		if b.in != nil {
			if err := b.begin(); err != nil {
				return fmt.Errorf("%s: %w: %s", name, err, b.logged())
			}
		}
		in := &Input{Expect: map[string]string{"http": "200 result | 202 result", "stdio": "result"}}
		for _, e := range endpoints[1:] {
			if !b.serves(e) || strings.HasSuffix(e, "-get") || strings.HasSuffix(e, "-delete") {
				continue
			}
			// Use each endpoint once: this opens permanent files, and checks the valid requests of the rows.
			o, err := b.attack(e, in, r.funcs)
			if err != nil || e != "well-known" && !strings.HasSuffix(e, "z") && !o.is(of(in.Expect, e)) {
				return fmt.Errorf("%s, %s: before the attacks: %s, %w: %s", name, e, o, err, b.logged())
			}
		}
		if name == "auth" { // fetches the keys of the issuer
			token, err := r.issuer.jwt()
			if err != nil {
				return err
			}
			if o, _, err := b.callTool("echo", callOf("echo", "{}", ""), token); err != nil || !o.is("200 result") {
				return fmt.Errorf("auth, with a token: before the attacks: %s, %w: %s", o, err, b.logged())
			}
		}
		b.setBaseline()
	}
	return nil
}

func (r *rig) stopAll() error {
	var errs []error
	for _, b := range r.bridges {
		errs = append(errs, b.stop())
	}
	return errors.Join(errs...)
}

// serves reports whether the bridge has the endpoint.
func (b *bridge) serves(endpoint string) bool {
	switch {
	case strings.HasPrefix(endpoint, "stdio"):
		return b.name == endpoint
	case b.in != nil || endpoint == "bridge":
		return false
	case b.tls != nil:
		return strings.HasSuffix(endpoint, "z") // the rows do not use TLS
	case endpoint == "well-known":
		return b.name == "auth"
	}
	return true
}

func (r *rig) runRow(ctx context.Context, row *Row, slow *sync.WaitGroup) {
	on := row.On
	if on == nil {
		on = []string{"open", "auth"}
	}
	used := map[*bridge]bool{}
	for n, in := range row.inputs() {
		if len(in.Expect) == 0 {
			continue // Go tests prove it
		}
		for _, e := range endpoints {
			want := of(in.Expect, e)
			if want == "" || want == "-" {
				continue
			}
			names := on
			if strings.HasPrefix(e, "stdio") {
				names = []string{e}
			}
			for _, name := range names {
				b := r.bridges[name]
				if b == nil {
					r.check(row.ID, fmt.Errorf("unknown bridge %q", name))
					continue
				}
				if e != "bridge" && !b.serves(e) {
					continue
				}
				what := fmt.Sprintf("%s %s/%s input %d", row.ID, name, e, n+1)
				if e == "bridge" && strings.HasPrefix(in.Do, "slow-") {
					slow.Go(func() { r.script(ctx, what, b, e, &in, want) })
					continue
				}
				used[b] = true
				if in.Do != "" {
					r.script(ctx, what, b, e, &in, want)
					continue
				}
				before := b.calls()
				o, err := b.attack(e, &in, r.funcs)
				r.check(what, r.verdict(b, &in, o, err, want, b.calls()-before))
			}
		}
	}
	for b := range used {
		r.check(row.ID+" "+b.name+" afterwards", b.settled())
	}
}

// verdict returns an error unless the outcome is the expected one.
func (r *rig) verdict(b *bridge, in *Input, o outcome, err error, want string, calls int) error {
	switch {
	case !b.alive():
		return fmt.Errorf("the bridge exited: %.2000s", b.logged())
	case err != nil:
		return fmt.Errorf("%w (%s)", err, o)
	case !o.is(want):
		return fmt.Errorf("got %s, want %s: %.300s", o, want, o.message)
	case in.Calls >= 0 && calls != in.Calls:
		return fmt.Errorf("the backend received %d calls, want %d", calls, in.Calls)
	case in.Has != "" && !strings.Contains(strings.ToLower(o.header), strings.ToLower(in.Has)):
		return fmt.Errorf("the response header lacks %q: %s", in.Has, o.header)
	case in.Lacks != "" && strings.Contains(strings.ToLower(o.header), strings.ToLower(in.Lacks)):
		return fmt.Errorf("the response header has %q: %s", in.Lacks, o.header)
	}
	return nil
}

// script runs a script of the table. An unknown script fails.
func (r *rig) script(ctx context.Context, what string, b *bridge, endpoint string, in *Input, want string) {
	f := scripts[in.Do]
	if f == nil {
		r.check(what, fmt.Errorf("unknown script %q", in.Do))
		return
	}
	before := b.calls()
	text, err := f(ctx, r, b, endpoint, in.Arg)
	r.check(what, r.verdict(b, in, outcome{text: text}, err, want, b.calls()-before))
}
