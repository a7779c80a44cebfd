package laws

import (
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
)

// packed makes all informers that do not choose a store cache bytes.
var packed = flag.Bool("packed", false, "let informers cache bytes")

// store resolves s according to the flag.
func store(s sharedinformer.Store) sharedinformer.Store {
	if *packed && s == sharedinformer.DefaultStore {
		return sharedinformer.Packed
	}
	return s
}

// newInformer is sharedinformer.New with the store under test.
func newInformer[T object.Object](from source.ListerWatcher, opts sharedinformer.Options) *sharedinformer.Informer[T] {
	opts.Store = store(opts.Store)
	return sharedinformer.New[T](from, opts)
}

// newFactory is factory.New with the store under test.
func newFactory(client *rest.Client, opts factory.Options) *factory.Factory {
	opts.Store = store(opts.Store)
	return factory.New(client, opts)
}

// wholeAlone skips a test of a property that only whole objects have, such as parts shared by cached
// objects.
func wholeAlone(t testing.TB) {
	if *packed {
		t.Skip("cached bytes have no parts")
	}
}

// All laws also hold for packed caches.
func TestC01_EveryLawHoldsWithPackedCaches(t *testing.T) {
	if *packed {
		t.Skip("this is that run")
	}
	if testing.Short() {
		t.Skip("runs every test of the laws again")
	}
	c := exec.Command(os.Args[0], "-packed", "-test.timeout=9m")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out[max(0, len(out)-20_000):])
}
