// Package browser looks at the page of the admin listener as people do: in a headless Chromium, which clicks
// through it, and keeps pictures.
package browser

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"lockproxy/integration/rig"
)

// tab is one page in a browser of its own.
type tab struct{ ctx context.Context }

// program is the browser of this machine.
func program(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium is installed: run `make tools`, or `apt-get install chromium`")
	return ""
}

// openTab opens a page in a new browser, which ends with the test. The test fails if the console of the page
// has warnings or errors.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program(t)), chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1440, 1000), chromedp.WSURLReadTimeout(rig.Patience),
	}
	for flag := range strings.FieldsSeq("headless no-sandbox disable-gpu disable-quic no-first-run " +
		"disable-background-networking disable-component-update disable-sync hide-scrollbars " +
		"disable-dev-shm-usage no-default-browser-check") {
		options = append(options, chromedp.Flag(flag, true))
	}
	process, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, leave := chromedp.NewContext(process)
	t.Cleanup(leave)
	b := &tab{ctx}
	t.Cleanup(func() {
		if t.Failed() {
			soon, cancel := context.WithTimeout(ctx, rig.Patience)
			defer cancel()
			text, err := chromedp.Run(soon, chromedp.Evaluate[string]("document.body.innerText"))
			t.Logf("the page says %v:\n%s", err, text)
		}
	})
	b.do(t, "start the browser")
	b.listen(t)
	b.do(t, "open "+url, chromedp.Navigate(url))
	return b
}

// listen has the test fail for what goes wrong in the page.
func (b *tab) listen(t *testing.T) {
	ctx, stop := context.WithCancel(b.ctx)
	messages := chromedp.Console(ctx)
	var over sync.WaitGroup
	over.Go(func() { // ends with ctx
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type != chromedp.ConsoleDebug && m.Type != chromedp.ConsoleInfo {
				t.Errorf("the console says: %v (%s:%d)", m, m.URL, m.Line)
			}
		}
	})
	t.Cleanup(func() { stop(); over.Wait() })
}

// do runs actions.
func (b *tab) do(t *testing.T, what string, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, rig.Patience)
	defer cancel()
	if len(actions) == 0 { // the first one must not have a context that ends
		ctx = b.ctx
	}
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// click clicks at what a CSS selector finds, and once more if the page has drawn it anew before that.
func (b *tab) click(t *testing.T, what chromedp.CSS) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "click "+string(what), func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, rig.Patience)
		defer cancel()
		err := chromedp.Do(ctx, chromedp.Click(what))
		if err != nil && !strings.Contains(err.Error(), "Could not find node") {
			t.Fatalf("click %s: %v", what, err)
		}
		return err == nil
	})
}

// is what an expression of JavaScript is in the page.
func is[T any](t *testing.T, b *tab, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, rig.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits until an expression is true.
func (b *tab) until(t *testing.T, expression string) {
	t.Helper()
	rig.Eventually(t, rig.Patience, expression, func() bool { return is[bool](t, b, expression) })
}

// shows waits until the text of an element contains words.
func (b *tab) shows(t *testing.T, id, words string) {
	t.Helper()
	b.until(t, fmt.Sprintf("document.getElementById(%q).innerText.includes(%q)", id, words))
}

// looks sets the scheme of colours, light or dark, and the size of the window.
func (b *tab) looks(t *testing.T, scheme string, width, height int64) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}
	b.do(t, scheme, chromedp.EmulateViewport(width, height),
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, media)
			return err
		}))
}

// picture is the page as it looks now, as PNG.
func (b *tab) picture(t *testing.T) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, rig.Patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil || len(png) == 0 {
		t.Fatalf("a picture of %d bytes: %v", len(png), err)
	}
	return png
}
