package browser

import (
	"bytes"
	"crypto/rand"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lockproxy/integration/rig"
)

// match is where a search is typed.
const match = chromedp.CSS("#match")

var update = flag.Bool("update", false, "make the pictures of docs anew")

const (
	password = "sesame"
	// taken would be true if a name came into the page as HTML.
	hostile = `<script>window.taken=true</script>`
	naughty = `<img/src=x/onerror=window.taken=true>`
	secret  = "token-that-nobody-may-see"
)

// entrance is the address of the page, with the password.
func entrance(p *rig.Proxy) string {
	return strings.Replace(p.Admin, "http://", "http://anybody:"+password+"@", 1) + "/"
}

// named is a connection with a name.
func named(t *testing.T, p *rig.Proxy, name string) *rig.Conn {
	t.Helper()
	c := rig.Connect(t, p.Addr)
	c.Must(t, "CLIENT", "SETNAME", name)
	return c
}

// Somebody looks at a cluster: sees who has which lock and who waits, searches, sees what happens at another
// proxy without a reload, and breaks a lock with a click. Names are shown as they are, whatever they are.
// R21, R23.
func TestPage(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	leases := []string{"17000000", "27000000", "35000000"}
	prefix := "page-" + rand.Text() + ":" // for this run alone: the cluster is for all
	args := []string{"--upstream", rig.SharedCluster().Addrs(), "--lock-prefix", prefix,
		"--lock-fleet", prefix, "--lock-events", "yes"}
	p := rig.StartProxy(t, append(args, "--admin-password", password, "--admin-actions", "yes",
		"--audit-log", audit, "--log-lock-names", "yes")...)
	other := rig.StartProxy(t, args...)
	c := named(t, p, "deploy-7")
	c.Must(t, "LOCK", "order:1017", "TOKEN", secret, "PX", "600000", "META", "migrates the schema")
	named(t, p, naughty).Must(t, "LOCK", hostile, "PX", "600000")
	for i := range 3 {
		named(t, other, fmt.Sprint("report-", i)).Must(t, "RLOCK", "report:daily", "PX", leases[i])
		named(t, p, fmt.Sprint("mail-", i)).Must(t, "SEMLOCK", "mail:out", "PERMITS", "5", "PX", "120000")
	}
	named(t, other, "billing-2").Must(t, "LOCK", "invoice:2026-11", "PX", "90000", "KEEPALIVE")
	waits := named(t, other, "deploy-8")
	if err := waits.Send("LOCK", "order:1017", "TOKEN", "w", "WAIT", "500000", "PX", "600000"); err != nil {
		t.Fatal(err)
	}
	rig.WaitersOf(t, p.Addr, "order:1017", 1)

	b := openTab(t, entrance(p))
	for _, words := range []string{"order:1017", "deploy-7", "migrates the schema", "deploy-8", "report-2",
		"3 of 5", "billing-2", hostile, naughty} {
		b.shows(t, "lock-rows", words)
	}
	b.shows(t, "state", "ready")
	b.shows(t, "served", "16,384 of 16,384")
	b.until(t, "document.querySelectorAll('#slots rect').length === 3")
	b.until(t, "document.querySelectorAll('#proxy-rows .good').length >= 2")
	b.shows(t, "setting-rows", "admin-password")
	is[string](t, b, "window.mark = 'not reloaded'")

	b.do(t, "search", chromedp.SendKeys(match, "report"))
	b.shows(t, "shown", "1 locks with “report” in the name")
	b.until(t, "document.querySelectorAll('#lock-rows tr').length === 3") // one a holder
	for i, left := range []string{"4 h", "7 h", "9 h"} {
		holder := fmt.Sprint("report-", i)
		row := is[string](t, b, fmt.Sprintf("[...document.querySelectorAll('#lock-rows tr')]"+
			".find((tr) => tr.innerText.includes(%q)).innerText", holder))
		if !strings.Contains(row, left) {
			t.Errorf("%s, whose lease has %s left, has the row %q", holder, left, row)
		}
	}
	b.until(t, "document.querySelector('#lock-rows button').closest('td').rowSpan === 3")
	is[string](t, b, "document.getElementById('match').value = ''")
	b.do(t, "search for all", chromedp.SendKeys(match, kb.Enter))
	b.shows(t, "lock-rows", "order:1017")

	quick := named(t, other, "importer-3")
	quick.Must(t, "LOCK", "import:42", "TOKEN", "i")
	quick.Must(t, "UNLOCK", "import:42", "i")
	b.shows(t, "event-rows", "importer-3")
	b.shows(t, "event-rows", "released")

	if *update { // what stands in the docs is what is usual
		c.Must(t, "LOCKCTL", "BREAK", hostile)
	}
	pictures(t, b, p)
	breaks(t, b, c, prefix, audit)

	if text := is[string](t, b, "document.documentElement.outerHTML"); strings.Contains(text, secret) {
		t.Error("the page has the token of a hold")
	}
	if is[bool](t, b, "window.taken === true") {
		t.Error("a name has become a part of the page")
	}
	if n := is[int](t, b, "document.querySelectorAll('td script, td img').length"); n > 0 {
		t.Errorf("%d elements are made of names", n)
	}
	if mark := is[string](t, b, "window.mark"); mark != "not reloaded" {
		t.Errorf("the page was loaded again: %q", mark)
	}
}

// breaks breaks order:1017, which its waiter gets then, and cron:nightly, which rests.
func breaks(t *testing.T, b *tab, c *rig.Conn, prefix, audit string) {
	t.Helper()
	b.click(t, `button[aria-label="Break order:1017"]`)
	b.shows(t, "break-name", "order:1017")
	b.shows(t, "break-holder", "deploy-7")
	b.click(t, "#break-no")
	c.Want(t, "(integer) 1", "EXISTS", prefix+"{order:1017}")
	b.click(t, `button[aria-label="Break order:1017"]`)
	b.click(t, "#break-yes")
	b.shows(t, "said", "The lock is broken.")
	b.shows(t, "event-rows", "broken")
	if v := c.Call(t, "UNLOCK", "order:1017", secret); v.String() != "(nil)" {
		t.Errorf("the former holder unlocks: %s", v)
	}
	rig.Eventually(t, rig.Patience, "a line of the audit log", func() bool {
		text, _ := os.ReadFile(audit)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"event":"broken"`) && strings.Contains(line, "order:1017") &&
				strings.Contains(line, `"name":"admin page"`) && strings.Contains(line, `"user":"anybody"`) {
				return true
			}
		}
		return false
	})
	c.Must(t, "LOCK", "cron:nightly", "TOKEN", "n", "ATLEAST", "600000")
	c.Must(t, "UNLOCK", "cron:nightly", "n")
	b.click(t, `button[aria-label="Break cron:nightly"]`)
	b.shows(t, "break-holder", "Nobody holds it: it rests for another")
	b.click(t, "#break-yes")
	rig.Eventually(t, rig.Patience, "what rested is free", func() bool {
		return !c.Call(t, "LOCK", "cron:nightly", "TOKEN", "m").Null
	})
}

// pictures looks at the page in both schemes of colours, beside some traffic, and on a small screen.
func pictures(t *testing.T, b *tab, p *rig.Proxy) {
	t.Helper()
	end, over := make(chan struct{}), make(chan struct{})
	go func() { // ends with pictures
		defer close(over)
		traffic(p.Addr, end)
	}()
	defer func() { close(end); <-over }()
	b.until(t, "document.querySelectorAll('#command-rows tr').length > 2")
	if *update {
		time.Sleep(20 * time.Second) // for the curves
	}
	is[bool](t, b, "document.activeElement.blur() === undefined")
	var grounds []string
	for _, scheme := range []string{"light", "dark"} {
		b.looks(t, scheme, 1440, 1180)
		grounds = append(grounds, is[string](t, b, "getComputedStyle(document.body).backgroundColor"))
		shot := b.picture(t)
		if err := os.WriteFile(filepath.Join(t.ArtifactDir(), scheme+".png"), shot, 0o644); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile("../../docs/admin-"+scheme+".png", small(t, shot), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if grounds[0] == grounds[1] {
		t.Errorf("both schemes have the colour %s", grounds[0])
	}
	b.looks(t, "light", 420, 900)
	if wide := is[int](t, b, "document.documentElement.scrollWidth"); wide > 420 {
		t.Errorf("the page is %d wide on a screen of 420", wide)
	}
	b.looks(t, "light", 1440, 1000)
}

// small is a picture with the 256 colours that it has most of, which takes less than half of the bytes.
func small(t *testing.T, full []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(full))
	if err != nil {
		t.Fatal(err)
	}
	counts, size := make(map[color.Color]int), from.Bounds()
	for y := range size.Dy() {
		for x := range size.Dx() {
			counts[from.At(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	to := image.NewPaletted(size, most[:min(len(most), 256)])
	nearest := make(map[color.Color]uint8)
	for y := range size.Dy() {
		for x := range size.Dx() {
			c := from.At(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(to.Palette.Index(c))
				nearest[c] = i
			}
			to.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// traffic is some load, until end is closed.
func traffic(addr string, end chan struct{}) {
	c, err := rig.Dial(addr)
	if err != nil {
		return
	}
	defer c.Close()
	for i := 0; ; i++ {
		name := fmt.Sprint("cart:", i%40)
		for _, command := range []string{"SET page-data:%s 1", "GET page-data:%s", "LOCK %s TOKEN t PX 9000",
			"UNLOCK %s t"} {
			if _, err := c.Do(strings.Fields(strings.ReplaceAll(command, "%s", name))...); err != nil {
				return
			}
		}
		select {
		case <-end:
			return
		case <-time.After(time.Duration(15+10*(i/25%3)) * time.Millisecond):
		}
	}
}

// The page is of use in front of every kind of upstream, and over independent masters. On loopback, and as
// long as clients need no password either, it needs none.
func TestPageElsewhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		start      func(t *testing.T) *rig.Proxy
		kind, node string
	}{
		"dev": {func(t *testing.T) *rig.Proxy { return rig.StartProxy(t, "--dev") },
			"single (in memory)", "up"},
		"sentinel": {func(t *testing.T) *rig.Proxy {
			return rig.StartProxy(t, "--upstream", rig.StartSentinels(t).Sentinels[0].Addr,
				"--replica-reads", "any")
		}, "sentinel", "replica of"},
		"redlock": {func(t *testing.T) *rig.Proxy {
			return rig.StartMasters(t, 3).StartRedlock(t, 10*time.Second,
				"--upstream", rig.SharedRedis().Addr, "--lock-lease", "10s", "--redlock-max-lease", "10s")
		}, "single", "up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := test.start(t)
			named(t, p, "worker-1").Must(t, "LOCK", "job:1", "KEEPALIVE")
			b := openTab(t, p.Admin+"/")
			b.shows(t, "lock-rows", "worker-1")
			b.shows(t, "facts", test.kind)
			b.shows(t, "node-rows", test.node)
			if name == "sentinel" { // whose replicas are asked, for clients read there
				b.until(t, "document.querySelectorAll('#node-rows .good').length > 1")
			}
			if name == "redlock" {
				b.shows(t, "votes", "3 of 3 vote")
			}
			if n := is[int](t, b, "document.querySelectorAll('#lock-rows button').length"); n > 0 {
				t.Error("there is a button without admin-actions")
			}
			rig.Connect(t, p.Addr).Must(t, "LOCK", "job:2", "TOKEN", "u")
			b.shows(t, "event-rows", "job:2")
		})
	}
}

// A node that dies is marked with its slots, and the page says why the proxy is not ready. When the node is
// back, so is the page.
func TestPageShowsWhatIsDown(t *testing.T) {
	t.Parallel()
	cluster := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", cluster.Addrs())
	b := openTab(t, p.Admin+"/")
	b.shows(t, "state", "ready")
	const bars, bad = "document.querySelectorAll('#slots rect%s').length === %d",
		"document.querySelectorAll('#node-rows .bad').length === %d"
	b.until(t, fmt.Sprintf(bars, "", 3))
	b.until(t, fmt.Sprintf(bad, 0))
	gone := cluster.Nodes[1]
	gone.Kill()
	b.shows(t, "state", "not ready")
	b.shows(t, "reasons", gone.Addr)
	b.until(t, fmt.Sprintf(bars, ".down", 1))
	b.until(t, fmt.Sprintf(bad, 1))
	b.shows(t, "served", "10,92")
	b.until(t, "document.title.startsWith('not ready')")
	row := is[string](t, b, "document.querySelector('#node-rows .bad').closest('tr').innerText")
	for _, words := range []string{gone.Addr, "master", "down ", "refused"} {
		if !strings.Contains(row, words) {
			t.Errorf("no %q in the row of the node: %s", words, row)
		}
	}
	title := is[string](t, b, "document.querySelector('#slots rect.down').textContent")
	if !strings.HasPrefix(title, gone.Addr+": ") {
		t.Errorf("the slots that are down are those of %s", title)
	}
	// All of them are gone: none of the slots is served.
	for _, n := range cluster.Nodes {
		n.Kill()
	}
	b.shows(t, "served", "0 of 16,384 slots have a master that answers")
	for _, n := range cluster.Nodes {
		n.Restart(t)
	}
	b.until(t, "document.title === 'lockproxy'")
	b.until(t, fmt.Sprintf(bad, 0))
	b.until(t, fmt.Sprintf(bars, ".down", 0))
	b.until(t, "document.getElementById('state').innerText === 'ready'")
	b.until(t, "document.getElementById('trouble').hidden")
}

// A lock is broken by nobody who only reaches the listener, nor by another site in the browser of somebody
// who has the password. 10,000 locks are found by a search, and shown in part.
func TestPageRefuses(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev", "--admin-password", password, "--admin-actions", "yes")
	rig.HoldMany(t, p.Addr, "many:%04d", 10_000)
	b := openTab(t, entrance(p))
	b.shows(t, "shown", "200 locks held or waited for of about ")
	b.until(t, `/about (9|10),\d\d\d/.test(document.getElementById("shown").innerText)`)
	b.do(t, "search", chromedp.SendKeys(match, "many:099?"))
	b.until(t, "document.querySelectorAll('#lock-rows tr').length === 10")
	id := is[string](t, b, "document.querySelector('#lock-rows tr').dataset.key")
	token := is[string](t, b, "hello.token")
	site := strings.TrimPrefix(p.Admin, "http://")
	for _, test := range []struct {
		what, method, password, origin, from, token string
		code                                        int
	}{
		{"no password", "POST", "", p.Admin, "same-origin", token, 401},
		{"a wrong one", "POST", "guess", p.Admin, "same-origin", token, 401},
		{"no token", "POST", password, p.Admin, "same-origin", "", 403},
		{"a wrong token", "POST", password, p.Admin, "same-origin", "A" + token[1:] + "A", 403},
		{"another origin", "POST", password, "http://evil.example.org", "", token, 403},
		{"no origin", "POST", password, "", "", token, 403},
		{"another port", "POST", password, "http://127.0.0.1:1", "same-site", token, 403},
		{"another site", "POST", password, p.Admin, "cross-site", token, 403},
		{"GET", "GET", password, p.Admin, "same-origin", token, 404},
		{"all that the page has", "POST", password, p.Admin, "same-origin", token, 200},
	} {
		r, err := http.NewRequest(test.method, p.Admin+"/break", strings.NewReader(`{"id":"`+id+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if test.password != "" {
			r.SetBasicAuth("any", test.password)
		}
		for name, value := range map[string]string{"Origin": test.origin, "Sec-Fetch-Site": test.from,
			"Lockproxy-Token": test.token} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != test.code {
			t.Errorf("%s: %s at %s, want %d", test.what, answer.Status, site, test.code)
		}
		want := "write"
		if test.code == 200 {
			want = "free"
		}
		if state, _ := rig.LockInfo(t, p.Addr, "many:0990"); state != want {
			t.Errorf("%s: the lock is %s", test.what, state)
		}
	}
}
