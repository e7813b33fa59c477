package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// A report is the result of a run, and the JSON file.
type report struct {
	Started  time.Time     `json:"started"`
	Machine  machine       `json:"machine"`
	Options  options       `json:"options"`
	Subjects []subjectInfo `json:"subjects"`
	LeftOut  []string      `json:"leftOut,omitempty"`
	Cells    []*cell       `json:"cells"`
	Ratios   []ratio       `json:"ratios"`
	Goals    []goalResult  `json:"goals"`
}

type subjectInfo struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// A cell is one subject at one setting over all rounds.
type cell struct {
	Subject string `json:"subject"`
	setting
	Rounds    []*sample `json:"rounds"` // nil where a round had errors
	Errors    []string  `json:"errors,omitempty"`
	PerSecond spread    `json:"callsPerSecond"`
	P50       spread    `json:"p50ms"`
	P99       spread    `json:"p99ms"`
	CPU       spread    `json:"cpuSecondsPer10k"`
	ServerCPU spread    `json:"serverCPUSecondsPer10k"`
	Whole     spread    `json:"wholeCPUSecondsPer10k"` // with the load generator's
}

// A spread is the median over the rounds, with the minimum and the maximum.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// A ratio is the CPU time per call of a subject over that of another: the median of the ratios of the rounds. Over
// direct, where the client differs, it includes the load generator.
type ratio struct {
	Subject string `json:"subject"`
	Over    string `json:"over"`
	setting
	CPU spread `json:"cpu"`
	P50 spread `json:"addedP50ms"` // what the subject's p50 is more than the other's
}

// A goal is the maximum CPU time per call over that of another subject, or, of kind added, the maximum difference of
// the p50 in milliseconds.
type goal struct {
	subject string
	over    string
	added   bool
	least   int // callers from which it holds
	most    int // and up to which; 0: any number
	minSize int
	maxSize int
	limit   float64
}

// goals are those of the bridge and of the SDKs: N times the calls per CPU second is 1/N of the CPU time per call.
// They use the floor without TLS. The bridge in front of a server may add half of the cost of a direct call.
var goals = []goal{
	{subject: bridgeGo, over: floor, least: 16, minSize: 0, maxSize: 1 << 30, limit: 1.4},
	{subject: bridgeGo, over: goSDK, least: 16, minSize: 0, maxSize: 1 << 10, limit: 0.5},
	{subject: bridgeGo, over: goSDK, least: 16, minSize: 1 << 16, maxSize: 1 << 30, limit: 0.2},
	{subject: bridgePython, over: pythonSDK, least: 16, minSize: 0, maxSize: 1 << 10, limit: 0.2},
	{subject: bridgeTypeScript, over: typeScriptSDK, least: 16, minSize: 0, maxSize: 1 << 10, limit: 0.5},
	{subject: bridgeJava, over: javaSDK, least: 16, minSize: 0, maxSize: 1 << 10, limit: 1},
	{subject: grpcLegacy, over: direct, maxSize: 1 << 30, limit: 1.5},
	{subject: grpcModern, over: direct, maxSize: 1 << 30, limit: 1.5},
	{subject: proxyLegacy, over: direct, maxSize: 1 << 30, limit: 1.5},
	{subject: proxyModern, over: direct, maxSize: 1 << 30, limit: 1.5},
	{subject: grpcLegacy, over: direct, added: true, most: 1, maxSize: 1 << 30, limit: 0.3},
	{subject: grpcModern, over: direct, added: true, most: 1, maxSize: 1 << 30, limit: 0.3},
	{subject: proxyLegacy, over: direct, added: true, most: 1, maxSize: 1 << 30, limit: 0.3},
	{subject: proxyModern, over: direct, added: true, most: 1, maxSize: 1 << 30, limit: 0.3},
}

type goalResult struct {
	Subject string `json:"subject"`
	Over    string `json:"over"`
	setting
	Added bool    `json:"addedP50,omitempty"` // milliseconds, and no ratio
	Limit float64 `json:"limit"`
	Is    spread  `json:"is"`
	Met   bool    `json:"met"`
}

func newReport(o options) *report {
	return &report{Started: time.Now().UTC().Truncate(time.Second), Machine: thisMachine(), Options: o}
}

func (r *report) add(subject string, s setting, got sample, err error) {
	c := r.cell(subject, s)
	if c == nil {
		c = &cell{Subject: subject, setting: s}
		r.Cells = append(r.Cells, c)
	}
	if err != nil {
		c.Rounds = append(c.Rounds, nil)
		c.Errors = append(c.Errors, err.Error())
		return
	}
	c.Rounds = append(c.Rounds, &got)
}

func (r *report) cell(subject string, s setting) *cell {
	for _, c := range r.Cells {
		if c.Subject == subject && c.setting == s {
			return c
		}
	}
	return nil
}

// conclude computes medians, ratios and goals. A cell with an error has none.
func (r *report) conclude() {
	for _, c := range r.Cells {
		if len(c.Errors) > 0 {
			continue
		}
		c.PerSecond = c.spread(func(s *sample) float64 { return s.PerSecond })
		c.P50 = c.spread(func(s *sample) float64 { return s.P50 })
		c.P99 = c.spread(func(s *sample) float64 { return s.P99 })
		c.CPU = c.spread(func(s *sample) float64 { return s.CPU })
		c.ServerCPU = c.spread(func(s *sample) float64 { return s.ServerCPU })
		c.Whole = c.spread(func(s *sample) float64 { return s.Whole })
	}
	for _, c := range r.Cells {
		for _, over := range comparedWith(c.Subject) {
			if other := r.cell(over, c.setting); other != nil && over != c.Subject &&
				len(c.Errors)+len(other.Errors) == 0 {
				r.Ratios = append(r.Ratios, compare(c, other))
			}
		}
	}
	for _, g := range goals {
		for _, is := range r.Ratios {
			if is.Subject == g.subject && is.Over == g.over && is.Callers >= g.least &&
				(g.most == 0 || is.Callers <= g.most) &&
				is.Size >= g.minSize && is.Size <= g.maxSize {
				got := is.CPU
				if g.added {
					got = is.P50
				}
				r.Goals = append(r.Goals,
					goalResult{g.subject, g.over, is.setting, g.added, g.limit, got, got.Median <= g.limit})
			}
		}
	}
}

// columns are the subjects that others are compared with.
var columns = []string{floor, floorTLS, goSDK, direct}

// comparedWith returns the subjects in the columns for subject, and those of its goals.
func comparedWith(subject string) []string {
	others := []string{floor, floorTLS, goSDK}
	if slices.Contains(through, subject) {
		others = append(others, direct)
	}
	for _, g := range goals {
		if g.subject == subject && !slices.Contains(others, g.over) {
			others = append(others, g.over)
		}
	}
	return others
}

func (c *cell) spread(of func(*sample) float64) spread {
	var values []float64
	for _, s := range c.Rounds {
		values = append(values, of(s))
	}
	return spreadOf(values)
}

// compare compares a cell with another one, round by round.
func compare(c, over *cell) ratio {
	var cpu, p50 []float64
	for i := range min(len(c.Rounds), len(over.Rounds)) {
		a, b := c.Rounds[i], over.Rounds[i]
		if over.Subject == direct {
			cpu = append(cpu, a.Whole/b.Whole)
		} else {
			cpu = append(cpu, a.CPU/b.CPU)
		}
		p50 = append(p50, a.P50-b.P50)
	}
	return ratio{c.Subject, over.Subject, c.setting, spreadOf(cpu), spreadOf(p50)}
}

func spreadOf(values []float64) spread {
	slices.Sort(values)
	n := len(values)
	return spread{Median: (values[(n-1)/2] + values[n/2]) / 2, Min: values[0], Max: values[n-1]}
}

func (r *report) refused() int {
	n := 0
	for _, c := range r.Cells {
		n += len(c.Errors)
	}
	return n
}

func (r *report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\nMedians of %d interleaved rounds, least and most in brackets. Arguments: %s text. Every "+
		"answer was verified.\n", r.Options.Rounds, r.Options.Text)
	fmt.Fprint(w, "CPU: seconds per 10,000 calls of server and plugin, then of the server alone, then of all and "+
		"the client. Ratios of CPU per call; goals count the floor without TLS.\n")
	for _, s := range settingsOf(r.Options) {
		r.printSetting(w, s)
	}
	r.printGoals(w)
}

func (r *report) printSetting(w io.Writer, s setting) {
	fmt.Fprintf(w, "\n%s, %d B, %s\n", s.Era, s.Size, callersText(s.Callers))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "subject\tcalls/s\tp50 ms\tp99 ms\tCPU\tof server\twith "+
		"client\t/floor\t/floor-tls\t/go-sdk\t/direct\t\n")
	for _, info := range r.Subjects {
		c := r.cell(info.Name, s)
		if c == nil {
			continue
		}
		if len(c.Errors) > 0 {
			fmt.Fprintf(t, "%s\trefused: errors\t\t\t\t\t\t\t\t\t\t\n", c.Subject)
			continue
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.3g\t%.3g\t%.3g [%.3g–%.3g]\t%.3g\t%.3g\t", c.Subject, c.PerSecond.Median,
			c.P50.Median, c.P99.Median,
			c.CPU.Median, c.CPU.Min, c.CPU.Max, c.ServerCPU.Median, c.Whole.Median)
		for _, over := range columns {
			fmt.Fprintf(t, "%s\t", r.ratioText(c, over))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

func (r *report) ratioText(c *cell, over string) string {
	for _, q := range r.Ratios {
		if q.Subject == c.Subject && q.Over == over && q.setting == c.setting {
			return fmt.Sprintf("%.2f", q.CPU.Median)
		}
	}
	return ""
}

func (r *report) printGoals(w io.Writer) {
	if len(r.Goals) == 0 {
		return
	}
	fmt.Fprint(w, "\nGoals: CPU per call (over direct, with the client's), and what is added to p50\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range r.Goals {
		verdict := "pass"
		if !g.Met {
			verdict = "miss"
		}
		unit := ""
		if g.Added {
			unit = " ms"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%d B\t%s\tover %s\t%.2f [%.2f–%.2f]%s\tat most %.1f%s\n", verdict, g.Subject,
			g.Era, g.Size,
			callersText(g.Callers), g.Over, g.Is.Median, g.Is.Min, g.Is.Max, unit, g.Limit, unit)
	}
	t.Flush()
}

func callersText(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}
