package main

import (
	"bytes"
	"fmt"
)

// A mutant is one deliberate defect: in file, old is replaced by new.
type mutant struct {
	name, file, old, new string
	// detector must report the defect: "survive IDS", "attack IDS" or "test PACKAGE TESTS".
	detector string
}

// apply returns the text of the file with the defect.
func (m mutant) apply(text []byte) ([]byte, error) {
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s has %q %d times, and must have it once: adapt the mutant to the code", m.file, m.old,
			n)
	}
	return bytes.Replace(text, []byte(m.old), []byte(m.new), 1), nil
}

// Files that several mutants change.
const (
	framesFile  = "internal/plugin/frames.go"
	handlerFile = "internal/plugin/handler.go"
	sessionFile = "internal/mcpserver/session.go"
	modernFile  = "internal/mcpserver/modern.go"
	httpFile    = "internal/mcpserver/http.go"
	guardFile   = "internal/mcphttp/guard.go"
	issuerFile  = "internal/auth/issuer.go"
	sealFile    = "internal/seal/seal.go"
	tasksFile   = "internal/tasks/task.go"
)

var mutants = []mutant{
	{
		name: "one result in a hundred is discarded", file: framesFile,
		old:      "\tc := f.calls[id]\n\tif c == nil {\n",
		new:      "\tc := f.calls[id]\n\tif c == nil || in.kind == frameResult && id%100 == 99 {\n",
		detector: "survive R1",
	},
	{
		name: "one result in a hundred goes to another call", file: framesFile,
		old: "\treturn f.deliverTo(c, id, in)\n}\n\n// deliverTo",
		new: "\tfor other, o := range f.calls {\n\t\tif in.kind == frameResult && id%100 == 99 && other != id {\n" +
			"\t\t\treturn f.deliverTo(o, other, in)\n\t\t}\n\t}\n\treturn f.deliverTo(c, id, in)\n}\n\n// deliverTo",
		detector: "survive R1",
	},
	{
		name: "some results are delivered four seconds late", file: handlerFile,
		old: "\t\tcase a.err == nil:\n",
		new: "\t\tcase a.err == nil:\n\t\t\tif call.Method == bridge.CallTool && " +
			"time.Now().UnixNano()/1000%200 == 0 {\n\t\t\t\ttime.Sleep(4 * time.Second)\n\t\t\t}\n",
		detector: "survive R1",
	},
	{
		name: "some progress events are lost", file: framesFile,
		old:      "\tc := f.calls[id]\n\tif c == nil {\n",
		new:      "\tc := f.calls[id]\n\tif c == nil || in.kind == frameEvent && id%100 == 99 {\n",
		detector: "survive R1",
	},
	{
		name: "progress is sent twice", file: "internal/mcpserver/exchange.go",
		old: "\treturn x.out.send(jsonrpc.AppendNotification(nil, notifyProgress, params))",
		new: "\t_ = x.out.send(jsonrpc.AppendNotification(nil, notifyProgress, params))\n\treturn " +
			"x.out.send(jsonrpc.AppendNotification(nil, notifyProgress, params))",
		detector: "survive R1",
	},
	{
		name: "a call whose backend was lost is retried", file: "internal/supervise/call.go",
		old: "a.Emitted || !call.Method.ReadOnly || bridge.IsRetry(call.Request) ||",
		new: "a.Emitted || (!call.Method.ReadOnly || bridge.IsRetry(call.Request)) && " +
			"time.Now().UnixNano()/1000%20 != 0 ||",
		detector: "survive R1",
	},
	{
		name: "a call whose backend was lost is reported as not executed", file: handlerFile,
		old:      "e := bridge.Failed(code, bridge.OutcomeUnknown, reason,",
		new:      "e := bridge.Failed(code, bridge.OutcomeNotExecuted, reason,",
		detector: "survive R1",
	},
	{
		name: "a response on stdio is written twice", file: "internal/mcpserver/stdio.go",
		old: "_, err := l.w.Write(append(msg[:len(msg):len(msg)], '\\n'))",
		new: "_, _ = l.w.Write(append(msg[:len(msg):len(msg)], '\\n'))\n\t_, err := " +
			"l.w.Write(append(msg[:len(msg):len(msg)], '\\n'))",
		detector: "survive R1",
	},
	{
		name: "each start of a backend leaks a descriptor", file: "internal/plugin/process.go",
		old: "func (r *process) Start(context.Context) error {",
		new: "var leaked = make(chan *os.File, 1<<20)\n\nfunc (r *process) Start(context.Context) error {\n" +
			"\tf, _ := os.Open(os.DevNull)\n\tleaked <- f\n",
		detector: "survive R1",
	},
	{
		name: "each connection for frames leaks a goroutine", file: framesFile,
		old:      "\t\tvar writer sync.WaitGroup\n",
		new:      "\t\tvar writer sync.WaitGroup\n\t\tgo func() { select {} }()\n",
		detector: "survive K1g",
	},
	{
		name: "a busy backend is restarted", file: "internal/plugin/health.go",
		old:      "case unanswered >= p.o.HangTimeout:",
		new:      "case unanswered >= 3*p.intervals.health:",
		detector: "survive R13",
	},
	{
		name: "processes in other process groups outlive a killed bridge", file: "internal/child/child.go",
		old: "\tif p.guard, err = setGuard(p.mark); err != nil {\n",
		new: "\tp.limits.end(p.Log)\n\tp.limits.groups = nil // otherwise the next bridge kills their processes\n" +
			"\tif p.guard, err = (guard{}), nil; err != nil {\n",
		detector: "survive R5",
	},
	{
		name: "notifications/cancelled is ignored", file: sessionFile,
		old:      "\t\tif cancel != nil {\n\t\t\tcancel(errCancelled)\n",
		new:      "\t\tif cancel != nil && id == nil {\n\t\t\tcancel(errCancelled)\n",
		detector: "survive R8",
	},
	{
		name: "a call of 2026-07-28 outlives its client", file: httpFile,
		old:      "s.modern(r.Context(), &msg, s.origin(r), out)",
		new:      "s.modern(context.WithoutCancel(r.Context()), &msg, s.origin(r), out)",
		detector: "survive R8",
	},
	{
		name: "a canceled call is answered", file: modernFile,
		old:      "\tcase s.isAbandoned(ctx):\n\t\tx.end(head{}, nil)\n\tcase ctx.Err() != nil && err != nil:",
		new:      "\tcase ctx.Err() != nil && err != nil:",
		detector: "test ./internal/mcpserver .",
	},
	{
		name: "a resumed stream repeats an event", file: httpFile,
		old:      "\t\t\tss.copyLog(r.Context(), w, l, n+1)\n",
		new:      "\t\t\tss.copyLog(r.Context(), w, l, n)\n",
		detector: "survive R10",
	},
	{
		name: "a resumed stream loses an event", file: httpFile,
		old:      "\t\t\tss.copyLog(r.Context(), w, l, n+1)\n",
		new:      "\t\t\tss.copyLog(r.Context(), w, l, n+2)\n",
		detector: "survive R10",
	},
	{
		name: "a change notification is lost", file: sessionFile,
		old:      "\t\tss.undelivered.Add(change)\n",
		new:      "",
		detector: "test ./internal/mcpserver .",
	},
	{
		name: "a change notification is sent twice", file: sessionFile,
		old:      "\tpush(msg)\n}",
		new:      "\tpush(msg)\n\tpush(msg)\n}",
		detector: "test ./internal/mcpserver .",
	},
	{
		name: "DELETE does not end the session", file: httpFile,
		old:      "\t\ts.endSession(ss.id)\n",
		new:      "",
		detector: "attack E",
	},
	{
		name: "a session serves another principal", file: "internal/mcpserver/server.go",
		old:      "ss == nil || !samePrincipal(ss.caller.GetVerified().GetPrincipal(), from.principal)",
		new:      "ss == nil",
		detector: "attack E",
	},
	{
		name: "a list of one principal is cached for all", file: "internal/catalog/lists.go",
		old:      "key := pageKey{kind: k, caller: bridge.AudienceOf(call.Context()), later: cursor != nil}",
		new:      "key := pageKey{kind: k, later: cursor != nil}",
		detector: "test ./internal/catalog .",
	},
	{
		name: "one call more than limits.calls is admitted", file: "internal/limit/semaphore.go",
		old:      "if s.inUse < s.limit {",
		new:      "if s.inUse <= s.limit {",
		detector: "test ./internal/limit .",
	},
	{
		name: "one session more than the limit is admitted", file: "internal/mcpserver/sessions.go",
		old:      "if s.n >= s.max {",
		new:      "if s.n > s.max {",
		detector: "test ./internal/mcpserver .",
	},
	{
		name: "requestState is bound to no request and no principal", file: sealFile,
		old:      "return append(call.Binding(), s.backend...)",
		new:      "return nil",
		detector: "test ./internal/seal .",
	},
	{
		name: "requestState never expires", file: sealFile,
		old:      "if uint64(time.Now().Unix()) > binary.BigEndian.Uint64(plain) {",
		new:      "if binary.BigEndian.Uint64(plain) == 0 {",
		detector: "test ./internal/seal .",
	},
	{
		name: "requestState is not sealed", file: "internal/seal/seal.go",
		old:      "\tout.RequestState = []byte(s.seal(call, needs.GetRequestState(), round))\n",
		new:      "\t_ = s.seal(call, needs.GetRequestState(), round)\n",
		detector: "test ./internal/seal .",
	},
	{
		name: "the header Mcp-Method is not compared with the body", file: modernFile,
		old:      "\tif value != method {\n",
		new:      "\tif value == \"\" {\n",
		detector: "attack D",
	},
	{
		name: "the header Mcp-Name is not compared with the body", file: modernFile,
		old:      "want := call.Method.Target(call.Request); name != want {",
		new:      "want := call.Method.Target(call.Request); name != want && name == \"\" {",
		detector: "attack D",
	},
	{
		name: "the Host header is not checked", file: guardFile,
		old:      "if !g.hostAllowed(r.Host) {",
		new:      "if !g.hostAllowed(r.Host) && r.Host == \"\" {",
		detector: "attack A01",
	},
	{
		name: "the Origin header is not checked", file: guardFile,
		old:      "len(origins) == 1 && !g.originAllowed(origins[0], r.Host)",
		new:      "len(origins) == 1 && !g.originAllowed(origins[0], r.Host) && r.Host == \"\"",
		detector: "attack A02",
	},
	{
		name: "a token for another audience is accepted", file: issuerFile,
		old: "case !slices.ContainsFunc(i.Audiences, c.Audience.Contains) && (!i.forEndpoints || " +
			"!c.Audience.Contains(resource)):",
		new: "case !slices.ContainsFunc(i.Audiences, c.Audience.Contains) && resource == \"\" && " +
			"!c.Audience.Contains(resource):",
		detector: "attack F",
	},
	{
		name: "an expired token is accepted", file: issuerFile,
		old:      "if err := c.ValidateWithLeeway(jwt.Expected{Time: time.Now()}, skew); err != nil {",
		new:      "if err := c.ValidateWithLeeway(jwt.Expected{Time: c.Expiry.Time()}, skew); err != nil {",
		detector: "attack F",
	},
	{
		name: "a secret is logged", file: guardFile,
		old: "\tallowOrigin(w.Header(), r)\n",
		new: "\tallowOrigin(w.Header(), r)\n\tg.Log.Warn().Str(\"authorization\", " +
			"r.Header.Get(\"Authorization\")).Msg(\"request\")\n",
		detector: "attack F",
	},
	{
		name: "an acknowledged answer to a task is not stored", file: tasksFile,
		old:      "\tk.set(Working, \"\")\n\t_ = k.save()",
		new:      "\tk.set(Working, \"\")\n\t_ = error(nil)",
		detector: "survive R18",
	},
	{
		name: "the end of a task is not stored", file: tasksFile,
		old:      "if status != Working {",
		new:      "if status == inputRequired {",
		detector: "survive R18",
	},
	{
		name: "shutdown does not wait for calls", file: "internal/app/run.go",
		old:      "ctx, cancel := context.WithTimeout(abort, a.cfg.Serve.Drain)",
		new:      "ctx, cancel := context.WithTimeout(abort, time.Millisecond)",
		detector: "survive R7",
	},
}
