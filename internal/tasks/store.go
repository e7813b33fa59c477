package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Store keeps tasks across runs of the bridge. Its methods may be called concurrently.
type Store struct{ db *bolt.DB }

// ErrInUse means that another process uses the store.
var ErrInUse = errors.New("another mcpbridge uses it")

var bucket = []byte("tasks")

const (
	storeFile = "tasks.db"
	// openTimeout is how long to wait for another process to close the store.
	openTimeout = time.Second
	// batchDelay is how long a write waits for others, which share its fsync.
	batchDelay = time.Millisecond
)

// OpenStore opens the store in a directory, which it creates if necessary. Only the user of the process can read it: it
// has the arguments and the results of tools.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := bolt.Open(filepath.Join(dir, storeFile), 0o600, &bolt.Options{Timeout: openTimeout})
	if err != nil {
		if errors.Is(err, bolt.ErrTimeout) { //nolint:staticcheck // the error that Open returns
			err = ErrInUse
		}
		return nil, err
	}
	db.MaxBatchDelay = batchDelay
	if err := db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	}); err != nil {
		db.Close()
		return nil, err
	}
	return &Store{db}, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.db.Close() }

// put writes the record of a task. When it returns nil, the record is on the disk (fsync).
func (s *Store) put(id string, r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.db.Batch(func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put([]byte(id), text) })
}

// remove removes the record of a task.
func (s *Store) remove(id string) error {
	return s.db.Batch(func(tx *bolt.Tx) error { return tx.Bucket(bucket).Delete([]byte(id)) })
}

// all returns the records of all tasks by their ids.
func (s *Store) all() (map[string]*record, error) {
	all := map[string]*record{}
	err := s.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(id, text []byte) error {
			r := &record{}
			if err := json.Unmarshal(text, r); err != nil {
				return fmt.Errorf("task %s: %w", id, err)
			}
			all[string(id)] = r
			return nil
		})
	})
	return all, err
}

// A record is a task in a Store. Messages of the contract are in their binary form.
type record struct {
	Backend                  string
	Issuer, Subject, Session string
	Number                   uint64
	Created, Updated         string
	TTL                      time.Duration
	Status, Message          string
	Request                  []byte
	Retry                    bool        `json:",omitempty"`
	Round                    roundRecord `json:",omitzero"`
	Result, Error            []byte      `json:",omitempty"`
}

// A roundRecord is the round of a record.
type roundRecord struct {
	Number, Requested int
	Pending           [][]byte          `json:",omitempty"`
	Keys              map[string]string `json:",omitempty"`
	Responses         map[string][]byte `json:",omitempty"`
	State             []byte            `json:",omitempty"`
}

// save writes the task to the store, if there is one. The caller holds mu. If that fails, the task continues in memory.
func (k *task) save() error {
	if k.all.o.Store == nil {
		return nil
	}
	err := k.all.o.Store.put(k.id, k.record())
	if err != nil {
		k.all.o.Log.Error().Err(err).Str("task", k.id).Msg("the task was not written to the store")
	}
	return err
}

// record returns the record of the task. The caller holds mu.
func (k *task) record() *record {
	r := &record{
		Backend: k.backend, Issuer: k.owner.issuer, Subject: k.owner.subject, Session: k.session, Number: k.number,
		Created: k.created, Updated: k.updated, TTL: k.ttl, Status: k.status, Message: k.message,
		Request: encode(k.call.Request), Retry: k.retry, Round: roundRecord{
			Number: k.round.number, Requested: k.round.requested, State: k.round.state,
			Keys: map[string]string{}, Responses: map[string][]byte{},
		},
	}
	for _, p := range k.round.pending {
		r.Round.Pending = append(r.Round.Pending, encode(p.request))
		r.Round.Keys[p.request.GetKey()] = p.key
	}
	for key, response := range k.round.responses {
		r.Round.Responses[key] = encode(response)
	}
	if k.result != nil {
		r.Result = encode(k.result)
	}
	if k.err != nil {
		r.Error = encode(k.err)
	}
	return r
}

// encode returns the binary form of a message, which the bridge has received in that form or as JSON.
func encode(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil { // invalid UTF-8, which fronts and backs reject
		return nil
	}
	return data
}

// taskOf returns the task of a record.
func taskOf(id string, r *record) (*task, error) {
	request := &pb.CallToolRequest{}
	k := &task{
		identity: identity{
			id, r.Number, principal{r.Issuer, r.Subject}, r.Session, r.Backend, r.Created, r.TTL,
		},
		state: state{status: r.Status, message: r.Message, updated: r.Updated, version: 1},
		call:  &bridge.Call{Method: bridge.CallTool, Request: request, Session: r.Session, Background: true},
		retry: r.Retry,
		round: round{
			number: r.Round.Number, requested: r.Round.Requested, state: r.Round.State,
			responses: map[string]*pb.InputResponse{},
		},
	}
	err := proto.Unmarshal(r.Request, request)
	for _, data := range r.Round.Pending {
		req := &pb.InputRequest{}
		err = errors.Join(err, proto.Unmarshal(data, req))
		k.round.pending = append(k.round.pending, pendingInput{req, r.Round.Keys[req.GetKey()]})
	}
	for key, data := range r.Round.Responses {
		response := &pb.InputResponse{}
		err = errors.Join(err, proto.Unmarshal(data, response))
		k.round.responses[key] = response
	}
	if r.Result != nil {
		k.result = &pb.CallToolResult{}
		err = errors.Join(err, proto.Unmarshal(r.Result, k.result))
	}
	if r.Error != nil {
		k.err = &pb.JsonRpcError{}
		err = errors.Join(err, proto.Unmarshal(r.Error, k.err))
	}
	return k, err
}

// restore adds the tasks of the store that have not expired.
func (t *Tasks) restore() error {
	records, err := t.o.Store.all()
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, r := range records {
		created, err := time.Parse(time.RFC3339, r.Created)
		if err != nil {
			return fmt.Errorf("task %s: %w", id, err)
		}
		left := time.Until(created.Add(r.TTL))
		if left <= 0 {
			if err := t.o.Store.remove(id); err != nil {
				return err
			}
			continue
		}
		k, err := taskOf(id, r)
		if err != nil {
			return fmt.Errorf("task %s: %w", id, err)
		}
		t.next = max(t.next, k.number)
		t.add(k, left)
	}
	return nil
}

// Resume continues the tasks of an earlier run with the Handlers of their backends, by name. A call that was in flight
// fails, unless its backend keeps the task, or its tool may be called again.
func (t *Tasks) Resume(handlers map[string]bridge.Handler) {
	t.mu.Lock()
	var all []*task
	for _, k := range t.tasks {
		if k.handler == nil {
			all = append(all, k)
		}
	}
	t.mu.Unlock()
	for _, k := range all {
		k.resume(handlers[k.backend])
	}
}

func (k *task) resume(h bridge.Handler) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handler = h
	switch {
	case IsFinal(k.status):
	case h == nil:
		k.fail(bridge.Failed(codes.Unavailable, bridge.OutcomeUnknown, "RESTARTED",
			"the bridge was restarted without the backend %q of the task", k.backend))
	case k.status != Working:
	case IsDriven(k.call.Request):
		k.begin()
	case k.retry:
		k.retry = false
		k.set(Working, "the bridge was restarted, and the tool is called again")
		if k.save() == nil {
			k.begin()
		}
	default:
		k.fail(bridge.Failed(codes.Unavailable, bridge.OutcomeUnknown, "RESTARTED",
			"the bridge was restarted while the tool was running; whether it was executed is not known"))
	}
}
