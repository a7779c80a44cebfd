package apiservertest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// page is the content of a list response.
type page struct {
	meta  metav1.ListMeta
	shard *shardInfo // nil if the server did not filter by shard
	items []*version
}

func (c *call) list() error {
	opts, sel, err := c.listOptions()
	if err != nil {
		return err
	}
	p, err := c.listPage(opts, sel)
	if err != nil {
		return err
	}
	return c.sendList(p)
}

// listPage reads a page of the state selected by the options:
//
//	continue set             the state of the first page, from the token's key
//	version unset            the current state
//	version "0"              the watch cache's state
//	version N, match Exact,
//	  or none with a limit   the state at N
//	version N otherwise      the watch cache's state, once it has reached N
//
// The current state is read from the watch cache once the cache has caught up, or from the store if that
// takes too long.
func (c *call) listPage(opts *internalversion.ListOptions, sel *selector) (page, error) {
	rv, err := parseRV(opts.ResourceVersion)
	if err != nil {
		return page{}, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	limit := opts.Limit
	if opts.ResourceVersion == "0" {
		limit = 0 // the watch cache does not paginate
	}
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		opts.ResourceVersionMatch == "" && limit > 0 && rv > 0
	start := sel.prefix
	if opts.Continue != "" {
		if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
			return page{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		token, err := decodeContinue(opts.Continue)
		if err != nil {
			return page{}, err
		}
		// A token with version -1 continues in the current state.
		rv, start, exact = uint64(max(0, token.RV)), sel.prefix+token.Start, token.RV > 0
	}
	current := opts.Continue == "" && opts.ResourceVersion == "" || opts.Continue != "" && !exact
	switch {
	case current:
		rv = c.newest()
		_, err = c.waitSeen(rv)
	case !exact || rv > c.newest():
		err = c.waitFresh(rv)
	}
	if err != nil {
		return page{}, err
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	switch {
	case c.coll.gone: // the resource was removed while the list waited
		return page{}, notServed()
	case exact && rv < c.coll.floor:
		return page{}, c.expired(opts.Continue)
	case exact:
		return c.cutPage(c.coll.past(rv, start, sel.prefix), sel, rv, limit), nil
	case current && s.seenOf(c.coll) < rv:
		return c.cutPage(c.coll.now(start, sel.prefix), sel, s.rv, limit), nil
	}
	return c.cutPage(s.list(c.coll, start, sel.prefix), sel, s.seenOf(c.coll), limit), nil
}

// cutPage returns a page with the first limit versions in all that are selected, and sets its
// continue token.
func (c *call) cutPage(all []*version, sel *selector, rv uint64, limit int64) page {
	p := page{meta: metav1.ListMeta{ResourceVersion: formatRV(rv)}}
	if sel.shard != nil {
		p.shard = &shardInfo{sel.shard.String()}
	}
	for i, v := range all {
		v = v.readAs(c.reading)
		if !sel.matches(v) {
			continue
		}
		if limit > 0 && int64(len(p.items)) == limit {
			last := p.items[limit-1]
			p.meta.Continue = continueToken{
				APIVersion: "meta.k8s.io/v1",
				RV:         int64(rv),
				Start:      strings.TrimPrefix(last.path, sel.prefix) + "\x00",
			}.encode()
			if sel.all() {
				rest := int64(len(all) - i)
				p.meta.RemainingItemCount = &rest
			}
			break
		}
		p.items = append(p.items, v)
	}
	return p
}

// expired returns the error for a state that is no longer available. A client that sent a continue token
// receives a new one, with which it can read the rest from the current state.
func (c *call) expired(token string) error {
	if token == "" {
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	err := apierrors.NewResourceExpired("The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	if old, decodeErr := decodeContinue(token); decodeErr == nil {
		old.RV = -1
		err.ErrStatus.ListMeta.Continue = old.encode()
	}
	return err
}

// tooLarge returns the error for a resource version that does not exist yet.
func tooLarge(want, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

// parseRV parses a resourceVersion. Empty means 0, which is not a version.
func parseRV(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %v", s, err)
	}
	return rv, nil
}

// continueToken is the decoded continue parameter.
type continueToken struct {
	APIVersion string `json:"v"`
	RV         int64  `json:"rv"`
	Start      string `json:"start"`
}

func (t continueToken) encode() string {
	raw, err := json.Marshal(t)
	if err != nil {
		panic(err) // cannot fail for strings and numbers
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func decodeContinue(s string) (continueToken, error) {
	var t continueToken
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	switch {
	case err != nil:
		return t, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: continue key is not valid: %v", err))
	case t.APIVersion != "meta.k8s.io/v1":
		return t, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: continue key is not valid: server does not recognize this encoded version %q", t.APIVersion))
	case t.RV == 0:
		return t, apierrors.NewBadRequest("invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return t, apierrors.NewBadRequest("invalid continue token: continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
	}
	return t, nil
}
