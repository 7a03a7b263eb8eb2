// The transit engine of Vault, behind the part of its HTTP interface that root keys use.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/builtin/logical/transit"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
)

// What a test changes: whether Vault is sealed or throttles, and what each token may do by path.
type state struct {
	Sealed    bool                           `json:"sealed"`
	Throttled bool                           `json:"throttled"`
	Tokens    map[string]map[string][]string `json:"tokens"`
}

type server struct {
	backend logical.Backend
	storage logical.Storage
	mount   string
	admin   string
	lock    sync.RWMutex
	state   state
}

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Serves on a free port, whose address is the first line of the output.
func run(ctx context.Context, mount, admin string) error {
	storage := &logical.InmemStorage{}
	backend, err := transit.Factory(ctx, &logical.BackendConfig{
		Logger:      hclog.NewNullLogger(),
		System:      logical.TestSystemView(),
		StorageView: storage,
	})
	if err != nil {
		return err
	}
	if err := backend.Initialize(ctx, &logical.InitializationRequest{Storage: storage}); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	s := &server{backend: backend, storage: storage, mount: mount, admin: admin}
	http.HandleFunc("PUT /state", s.change)
	http.HandleFunc("POST /v1/", s.write)
	return http.Serve(listener, nil)
}

func (s *server) change(w http.ResponseWriter, r *http.Request) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.state = state{}
	if err := json.NewDecoder(r.Body).Decode(&s.state); err != nil {
		logical.RespondError(w, http.StatusBadRequest, err)
	}
}

// In the order of Vault: seal, quota, mount, policy, engine.
func (s *server) write(w http.ResponseWriter, r *http.Request) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	path, isMounted := strings.CutPrefix(r.URL.Path, "/v1/"+s.mount+"/")
	switch {
	case s.state.Sealed:
		logical.RespondError(w, http.StatusServiceUnavailable, consts.ErrSealed)
	case s.state.Throttled:
		logical.RespondError(w, http.StatusTooManyRequests, logical.ErrRateLimitQuotaExceeded)
	case !isMounted:
		err := fmt.Errorf("no handler for route %q. route entry not found.", r.URL.Path)
		logical.RespondError(w, http.StatusNotFound, err)
	default:
		s.handle(w, r, path)
	}
}

func (s *server) handle(w http.ResponseWriter, r *http.Request, path string) {
	request := &logical.Request{Path: path, Storage: s.storage, Operation: logical.UpdateOperation}
	if err := json.NewDecoder(r.Body).Decode(&request.Data); err != nil {
		logical.RespondError(w, http.StatusBadRequest, err)
		return
	}
	isCheck, exists, err := s.backend.HandleExistenceCheck(r.Context(), request)
	if err != nil && !errors.Is(err, logical.ErrUnsupportedPath) {
		logical.RespondError(w, http.StatusInternalServerError, err)
		return
	}
	if isCheck && !exists {
		request.Operation = logical.CreateOperation
	}
	if !s.permits(r.Header.Get(consts.AuthHeaderName), s.mount+"/"+path, request.Operation) {
		logical.RespondError(w, http.StatusForbidden, logical.ErrPermissionDenied)
		return
	}
	response, err := s.backend.HandleRequest(r.Context(), request)
	if status, err := logical.RespondErrorCommon(request, response, err); status != 0 || err != nil {
		logical.RespondError(w, status, err)
		return
	}
	if response == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(logical.LogicalResponseToHTTPResponse(response))
}

func (s *server) permits(token, path string, operation logical.Operation) bool {
	return token == s.admin || slices.Contains(s.state.Tokens[token][path], string(operation))
}
