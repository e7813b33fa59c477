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

// Credentials are stored for one authorization server, and never used at another (2026-07-28: client registration,
// authorization server binding).
type credentials struct {
	Issuer string `json:"issuer"`
	// Client is the last dynamic registration.
	Client *client `json:"client,omitempty"`
	// Configured has the ID of the configured client that was used here, by MCP server.
	Configured map[string]string `json:"configured,omitempty"`
	// Grants has the grants by MCP server.
	Grants map[string]*grant `json:"grants,omitempty"`
}

// A store has credentials in one file for each authorization server, or in memory if it has no directory.
type store struct {
	dir string
	log zerolog.Logger

	mu sync.Mutex // guards what follows
	// memory has credentials by issuer: all of them without a directory, or else those that could not be written.
	memory    map[string]*credentials
	unwritten map[string]map[string]grantChange // by issuer and MCP server

	updating sync.Mutex // serializes updates in this process if the lock file cannot be created
}

// A grantChange is a grant that could not be written, and the one that it replaces. nil means none.
type grantChange struct{ before, after *grant }

const (
	maxFile      = 1 << 20
	maxFiles     = 1024
	lockInterval = 20 * time.Millisecond // between attempts to lock
	flushTimeout = 5 * time.Second
)

// openStore returns the store in dir, which it creates if necessary.
func openStore(dir string, log zerolog.Logger) (*store, error) {
	s := &store{dir: dir, log: log, memory: map[string]*credentials{}, unwritten: map[string]map[string]grantChange{}}
	if dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		log.Warn().Err(err).Str("dir", dir).
			Str("fix", "set oauth.credentials to a writable directory, such as one of an emptyDir").
			Msg("cannot create the directory of OAuth credentials; keeping tokens in memory until this process exits")
		s.dir = ""
		return s, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("credentials directory: %w", err)
	}
	if err := checkMode(info, 0o700); err != nil {
		return nil, fmt.Errorf("credentials directory %s: %w", dir, err)
	}
	return s, nil
}

// checkMode returns an error if other users can read or write a file or directory.
func checkMode(info fs.FileInfo, want fs.FileMode) error {
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return fmt.Errorf("its mode is %#o, which lets other users use the credentials;"+
			" run chmod %o on it, and log in again if they may have been read", mode, want)
	}
	return nil
}

// fileName returns the name of the file of an authorization server.
func (s *store) fileName(issuer string) string {
	sum := sha256.Sum256([]byte(issuer))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

// update calls f with the credentials of an authorization server and stores its changes, even if it returns an error.
// It locks them for this and other processes. If they cannot be written, that is not an error, because what they
// replace may be invalid by now: they are kept in memory, used, and written by a later update.
func (s *store) update(ctx context.Context, issuer string, f func(*credentials) error) error {
	if s.dir == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		c := s.memory[issuer]
		if c == nil {
			c = &credentials{Issuer: issuer}
			s.memory[issuer] = c
		}
		return f(c.withMaps())
	}
	name := s.fileName(issuer)
	lock := flock.New(name+".lock", flock.SetPermissions(0o600))
	_, writeErr := lock.TryLockContext(ctx, lockInterval)
	switch {
	case writeErr == nil:
		defer lock.Close()
	case ctx.Err() != nil:
		return fmt.Errorf("credentials: waiting for another process to unlock %s: %w", name, writeErr)
	default:
		writeErr = fmt.Errorf("credentials: %w", writeErr)
		s.updating.Lock()
		defer s.updating.Unlock()
	}
	c, err := s.read(name)
	if err != nil {
		return err
	}
	if c == nil || c.Issuer != issuer {
		c = &credentials{Issuer: issuer}
	}
	before, err := encode(c.withMaps())
	if err != nil {
		return err
	}
	grants := maps.Clone(c.Grants)
	s.applyUnwritten(c)
	result := f(c)
	after, err := encode(c)
	if err != nil {
		return errors.Join(result, err)
	}
	if bytes.Equal(after, before) {
		s.setUnwritten(issuer, nil, nil)
		return result
	}
	if writeErr == nil {
		writeErr = write(name, after)
	}
	if writeErr == nil {
		s.setUnwritten(issuer, nil, nil)
		return result
	}
	if s.setUnwritten(issuer, c, grantChanges(grants, c.Grants)) {
		s.log.Warn().Err(writeErr).Str("dir", s.dir).
			Str("fix", "free space, or set oauth.credentials to a writable directory").
			Msg("cannot write OAuth credentials; keeping them in memory of this process until they can be written")
	}
	return result
}

// grantChanges returns the differences between two maps of grants.
func grantChanges(before, after map[string]*grant) map[string]grantChange {
	changes := map[string]grantChange{}
	for server, g := range after {
		if before[server] != g {
			changes[server] = grantChange{before[server], g}
		}
	}
	for server, g := range before {
		if after[server] == nil {
			changes[server] = grantChange{g, nil}
		}
	}
	return changes
}

// setUnwritten keeps credentials that could not be written, with their changed grants, or none if c is nil. It reports
// whether there were none before, so that one warning is logged until a write succeeds.
func (s *store) setUnwritten(issuer string, c *credentials, changes map[string]grantChange) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.memory[issuer] == nil
	if c == nil {
		delete(s.memory, issuer)
		delete(s.unwritten, issuer)
		return first
	}
	s.memory[issuer], s.unwritten[issuer] = c, changes
	return first
}

// applyUnwritten applies the unwritten changes to c, except those to grants that another process changed in the
// meantime.
func (s *store) applyUnwritten(c *credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for server, change := range s.unwritten[c.Issuer] {
		switch g := c.Grants[server]; {
		case (g == nil) != (change.before == nil) || g != nil && g.Access != change.before.Access:
		case change.after == nil:
			delete(c.Grants, server)
		default:
			c.Grants[server] = change.after
		}
	}
	m := s.memory[c.Issuer]
	if m == nil {
		return
	}
	if c.Client == nil {
		c.Client = m.Client
	}
	for server, id := range m.Configured {
		if c.Configured[server] == "" {
			c.Configured[server] = id
		}
	}
}

// flush tries to write all unwritten credentials.
func (s *store) flush(ctx context.Context) {
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
			s.log.Warn().Err(err).Str("issuer", issuer).Msg("cannot write OAuth credentials before exit; they are lost")
		}
		s.mu.Unlock()
	}
}

func (c *credentials) withMaps() *credentials {
	if c.Configured == nil {
		c.Configured = map[string]string{}
	}
	if c.Grants == nil {
		c.Grants = map[string]*grant{}
	}
	return c
}

func encode(c *credentials) ([]byte, error) {
	return json.Marshal(c, json.Deterministic(true), jsontext.WithIndent("  "))
}

// read returns the credentials in a file, or nil if it is missing or invalid. A file that other users can access is an
// error.
func (s *store) read(name string) (*credentials, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil //nolint:nilnil // documented above
	}
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if err := checkMode(info, 0o600); err != nil {
		return nil, fmt.Errorf("credentials file %s: %w", name, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	c := &credentials{}
	if err := json.Unmarshal(text, c); err != nil || len(text) > maxFile {
		// The error is not logged: it may quote a token.
		s.log.Warn().Str("file", name).Msg("ignoring an invalid credentials file; the next login replaces it")
		return nil, nil //nolint:nilnil // documented above
	}
	return c, nil
}

// write replaces a file atomically.
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

// usedIssuer returns the first of the authorization servers that was used for an MCP server, with the configured client
// if id is not empty, or "".
func (s *store) usedIssuer(issuers []string, server, id string) string {
	for _, issuer := range issuers[:min(len(issuers), maxFiles)] {
		s.mu.Lock()
		used := s.memory[issuer].usedFor(server, id)
		s.mu.Unlock()
		if !used && s.dir != "" {
			c, err := s.read(s.fileName(issuer))
			used = err == nil && c.usedFor(server, id)
		}
		if used {
			return issuer
		}
	}
	return ""
}

// usedFor reports whether the authorization server was used for an MCP server.
func (c *credentials) usedFor(server, id string) bool {
	return c != nil && (id != "" && c.Configured[server] == id || id == "" && c.Grants[server] != nil)
}

// configuredIssuer returns the authorization server at which the configured client was used for an MCP server, or "".
func (s *store) configuredIssuer(server, id string) string {
	if issuer := s.configuredInMemory(server, id); issuer != "" || s.dir == "" {
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
		c, err := s.read(filepath.Join(s.dir, e.Name()))
		if err == nil && c != nil && c.Configured[server] == id {
			return c.Issuer
		}
	}
	return ""
}

func (s *store) configuredInMemory(server, id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for issuer, c := range s.memory {
		if c.Configured[server] == id {
			return issuer
		}
	}
	return ""
}
