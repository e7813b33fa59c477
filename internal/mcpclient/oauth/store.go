package oauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"
	"github.com/rs/zerolog"
)

// Credentials are what is kept of one authorization server. They are no good at any other (2026-07-28: client registration,
// authorization server binding).
type credentials struct {
	Issuer string `json:"issuer"`
	// Client is how we have registered there the last time, if we had to.
	Client *client `json:"client,omitempty"`
	// Told has, by MCP server, the client of the configuration that has been used here.
	Told map[string]string `json:"configured,omitempty"`
	// Grants has, by MCP server, what we have been granted.
	Grants map[string]*grant `json:"grants,omitempty"`
}

// A store keeps credentials: a file an authorization server, or nothing but memory if it has no directory.
type store struct {
	dir string
	log zerolog.Logger

	mu     sync.Mutex                 // guards what follows
	memory map[string]*credentials    // by issuer: all, if there is no directory, else what could not be written
	owed   map[string]map[string]debt // by issuer and MCP server, the grants of these

	alone sync.Mutex // is held by who changes something without a lock, as there can be none
}

// A debt is a grant that could not be written, and the one in whose place it is to be. Nil: none.
type debt struct{ was, is *grant }

const (
	maxFile    = 1 << 20
	maxFiles   = 1024
	lockEvery  = 20 * time.Millisecond // how often another process's lock is looked at
	settleTime = 5 * time.Second       // how long the end waits for what is still to be written
)

// openStore returns the store in dir, which it makes if it is not there.
func openStore(dir string, log zerolog.Logger) (*store, error) {
	s := &store{dir: dir, log: log, memory: map[string]*credentials{}, owed: map[string]map[string]debt{}}
	if dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		log.Warn().Err(err).Str("dir", dir).Str("fix", "let oauth.credentials name a directory that can be written, such as one of an emptyDir").
			Msg("the directory of OAuth credentials cannot be made: tokens are kept in memory, and end with this process")
		s.dir = ""
		return s, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("credentials directory: %w", err)
	}
	if err := private(info, 0o700); err != nil {
		return nil, fmt.Errorf("credentials directory %s: %w", dir, err)
	}
	return s, nil
}

// private says what is wrong with a file or directory that others can read or write.
func private(info fs.FileInfo, want fs.FileMode) error {
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return fmt.Errorf("its mode is %#o, so others may use what is in it; run chmod %o on it, and log in anew if somebody may have", mode, want)
	}
	return nil
}

// name returns the name of the file of an authorization server.
func (s *store) name(issuer string) string {
	sum := sha256.Sum256([]byte(issuer))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

// update lets f look at and change what is kept of an authorization server. Nobody else changes it meanwhile, in this
// process or another. What has changed is kept although f returns an error. That it cannot be written is no error: what it replaces may be
// spent, so it is kept in memory, used, and written by the next update that can.
func (s *store) update(ctx context.Context, issuer string, f func(*credentials) error) error {
	if s.dir == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		c := s.memory[issuer]
		if c == nil {
			c = &credentials{Issuer: issuer}
			s.memory[issuer] = c
		}
		return f(c.ready())
	}
	name := s.name(issuer)
	lock := flock.New(name+".lock", flock.SetPermissions(0o600))
	_, unwritable := lock.TryLockContext(ctx, lockEvery)
	switch {
	case unwritable == nil:
		defer lock.Close()
	case ctx.Err() != nil:
		return fmt.Errorf("credentials: waiting for another process that uses %s: %w", name, unwritable)
	default:
		unwritable = fmt.Errorf("credentials: %w", unwritable)
		s.alone.Lock()
		defer s.alone.Unlock()
	}
	c, err := s.read(name)
	if err != nil {
		return err
	}
	if c == nil || c.Issuer != issuer {
		c = &credentials{Issuer: issuer}
	}
	before, err := encode(c.ready())
	if err != nil {
		return err
	}
	was := maps.Clone(c.Grants)
	s.repay(c)
	result := f(c)
	after, err := encode(c)
	if err != nil {
		return errors.Join(result, err)
	}
	if bytes.Equal(after, before) {
		s.owe(issuer, nil, nil)
		return result
	}
	if unwritable == nil {
		unwritable = write(name, after)
	}
	if unwritable == nil {
		s.owe(issuer, nil, nil)
		return result
	}
	if s.owe(issuer, c, changes(was, c.Grants)) {
		s.log.Warn().Err(unwritable).Str("dir", s.dir).Str("fix", "make room, or let oauth.credentials name a directory that can be written").
			Msg("OAuth credentials cannot be written down: they are kept in memory and used, and written when that can be done; other processes do not have them")
	}
	return result
}

// changes returns how grants have changed.
func changes(was, are map[string]*grant) map[string]debt {
	changed := map[string]debt{}
	for server, g := range are {
		if was[server] != g {
			changed[server] = debt{was[server], g}
		}
	}
	for server, g := range was {
		if are[server] == nil {
			changed[server] = debt{g, nil}
		}
	}
	return changed
}

// owe remembers what could not be written of an authorization server, c with the grants that have changed; nil: nothing. It reports whether
// that is new: it is warned of once, until something could be written.
func (s *store) owe(issuer string, c *credentials, owed map[string]debt) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.memory[issuer] == nil
	if c == nil {
		delete(s.memory, issuer)
		delete(s.owed, issuer)
		return first
	}
	s.memory[issuer], s.owed[issuer] = c, owed
	return first
}

// repay puts what could not be written where it belongs, unless another process has got another grant since, or has registered.
func (s *store) repay(c *credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for server, d := range s.owed[c.Issuer] {
		switch g := c.Grants[server]; {
		case (g == nil) != (d.was == nil) || g != nil && g.Access != d.was.Access:
		case d.is == nil:
			delete(c.Grants, server)
		default:
			c.Grants[server] = d.is
		}
	}
	m := s.memory[c.Issuer]
	if m == nil {
		return
	}
	if c.Client == nil {
		c.Client = m.Client
	}
	for server, id := range m.Told {
		if c.Told[server] == "" {
			c.Told[server] = id
		}
	}
}

// settle writes what could not be written, for the last time.
func (s *store) settle(ctx context.Context) {
	s.mu.Lock()
	var issuers []string
	if s.dir != "" {
		issuers = slices.Collect(maps.Keys(s.memory))
	}
	s.mu.Unlock()
	for _, issuer := range issuers {
		err := s.update(ctx, issuer, func(*credentials) error { return nil })
		s.mu.Lock()
		if s.memory[issuer] != nil {
			s.log.Warn().Err(err).Str("issuer", issuer).Msg("OAuth credentials could not be written down, and end with this process")
		}
		s.mu.Unlock()
	}
}

func (c *credentials) ready() *credentials {
	if c.Told == nil {
		c.Told = map[string]string{}
	}
	if c.Grants == nil {
		c.Grants = map[string]*grant{}
	}
	return c
}

func encode(c *credentials) ([]byte, error) {
	return json.Marshal(c, json.Deterministic(true), jsontext.WithIndent("  "))
}

// read returns what is in a file, or nil if there is nothing that can be used. What others could have read or written is an
// error: it may be known to them, or theirs.
func (s *store) read(name string) (*credentials, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil //nolint:nilnil // nothing is kept yet, or for somebody else, and that is no error
	}
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if err := private(info, 0o600); err != nil {
		return nil, fmt.Errorf("credentials file %s: %w", name, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	c := &credentials{}
	if err := json.Unmarshal(text, c); err != nil || len(text) > maxFile {
		// Its content stays out of the log: it may be a token with a character too many.
		s.log.Warn().Str("file", name).Msg("a file of credentials cannot be read, and is not used; logging in writes it anew")
		return nil, nil //nolint:nilnil // as if there were none
	}
	return c, nil
}

// write replaces a file at once: whoever reads it sees all of the old one or all of the new one.
func write(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "*.new") // its mode is 0600
	if err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("credentials: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// used returns the first of the authorization servers that has been used for an MCP server, as the client of the configuration if there
// is one, or "".
func (s *store) used(issuers []string, server, id string) string {
	for _, issuer := range issuers[:min(len(issuers), maxFiles)] {
		s.mu.Lock()
		used := s.memory[issuer].isFor(server, id)
		s.mu.Unlock()
		if !used && s.dir != "" {
			c, err := s.read(s.name(issuer))
			used = err == nil && c.isFor(server, id)
		}
		if used {
			return issuer
		}
	}
	return ""
}

// isFor reports whether an authorization server has been used for an MCP server.
func (c *credentials) isFor(server, id string) bool {
	return c != nil && (id != "" && c.Told[server] == id || id == "" && c.Grants[server] != nil)
}

// told returns the authorization server at which the configured client has been used for an MCP server, or "".
func (s *store) told(server, id string) string {
	if issuer := s.toldInMemory(server, id); issuer != "" || s.dir == "" {
		return issuer
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return ""
	}
	for _, e := range entries[:min(len(entries), maxFiles)] {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		if c, err := s.read(filepath.Join(s.dir, e.Name())); err == nil && c != nil && c.Told[server] == id {
			return c.Issuer
		}
	}
	return ""
}

func (s *store) toldInMemory(server, id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for issuer, c := range s.memory {
		if c.Told[server] == id {
			return issuer
		}
	}
	return ""
}
