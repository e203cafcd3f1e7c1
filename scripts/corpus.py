# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes the corpus and the signatures that corpus.sh describes."""
import base64
import bz2
import glob
import gzip
import hashlib
import io
import lzma
import os
import random
import shutil
import struct
import tarfile
import zipfile
import zlib

ROOT = os.environ["SCAN_ROOT"]
CORPUS = ROOT + "/corpus"
TREES = ("/usr/share/", "/usr/include/", "/usr/bin/", "/usr/lib/")
PARTS = (
    ("small", 1, 128 << 10, int(os.environ["N_SMALL"])),
    ("med", 128 << 10, 8 << 20, int(os.environ["N_MED"])),
    ("big", 8 << 20, 128 << 20, int(os.environ["N_BIG"])),
)
EDGES = [0, 1, 511]
for _n in (4096, 8192, 65536, 1 << 20, 2 << 20):
    EDGES += [_n - 1, _n, _n + 1]
EDGES += [4 << 20, (8 << 20) - 1, (8 << 20) + 1]
# In pieces, so that this file is not itself a hit.
EICAR = ("X5O!P%@AP[4\\PZX54(P^)7CC)7}$" + "EICAR-STANDARD-"
         + "ANTIVIRUS-TEST-FILE!$H+H*").encode()


def done(part, key=""):
    """True if @part was completed with @key; else starts it afresh."""
    mark = "%s/.%s" % (ROOT, part.replace("/", "-"))
    try:
        with open(mark) as f:
            if f.read() == key:
                return True
    except OSError:
        pass
    shutil.rmtree("%s/%s" % (ROOT, part), ignore_errors=True)
    os.makedirs("%s/%s" % (ROOT, part))
    return False


def finish(part, key=""):
    with open("%s/.%s" % (ROOT, part.replace("/", "-")), "w") as f:
        f.write(key)


def put(path, data):
    with open(path, "wb") as f:
        f.write(data)


def get(path):
    with open(path, "rb") as f:
        return f.read()


def system_files():
    """(size, path) of every file that packages own, or of the trees."""
    lists = glob.glob("/var/lib/dpkg/info/*.list")
    paths = set()
    for name in lists:
        with open(name, errors="surrogateescape") as f:
            paths.update(p for p in f.read().split("\n")
                         if p.startswith(TREES))
    if not lists:
        for tree in TREES:
            for top, _, names in os.walk(tree):
                paths.update(os.path.join(top, n) for n in names)
    for path in paths:
        if "/clamav-testfiles/" in path or path.endswith("locale-archive"):
            continue
        if os.path.islink(path) or not os.access(path, os.R_OK):
            continue
        if os.path.isfile(path):
            yield os.path.getsize(path), path


def copies():
    key = repr(PARTS)
    if done("corpus", key):
        return False
    files = sorted(system_files(), key=lambda e: hashlib.md5(
        os.fsencode(e[1])).digest())
    for part, low, high, count in PARTS:
        chosen = [p for size, p in files if low <= size < high][:count]
        for i, path in enumerate(chosen):
            folder = "%s/%s/%02d" % (CORPUS, part, i // 200)
            os.makedirs(folder, exist_ok=True)
            shutil.copyfile(path, "%s/%05d_%s" % (
                folder, i, os.path.basename(path)[-80:]))
    for part in ("made", "edge", "hit", "sub"):
        os.makedirs("%s/%s" % (CORPUS, part))
    return True


def edges(blob):
    for n in EDGES:
        put("%s/edge/size_%08d" % (CORPUS, n),
            (blob * (n // len(blob) + 1))[:n])
    with open(CORPUS + "/edge/sparse_16m", "wb") as f:
        f.seek((16 << 20) - 1)
        f.write(b"\n")


def archives(small, med):
    made = CORPUS + "/made"
    for i in range(20):
        group = small[i * 25:(i + 1) * 25]
        with zipfile.ZipFile("%s/z%02d.zip" % (made, i), "w",
                             zipfile.ZIP_DEFLATED) as z:
            for path in group:
                z.write(path, os.path.basename(path))
        with tarfile.open("%s/t%02d.tar" % (made, i), "w") as t:
            for path in group:
                t.add(path, os.path.basename(path))
        with tarfile.open("%s/g%02d.tgz" % (made, i), "w:gz") as t:
            for path in group[::-1]:
                t.add(path, os.path.basename(path))
    for i, path in enumerate(med[:30]):
        data = get(path)
        put("%s/m%02d.gz" % (made, i), gzip.compress(data, 6, mtime=0))
        if i < 6:
            put("%s/m%02d.bz2" % (made, i), bz2.compress(data))
            put("%s/m%02d.xz" % (made, i), lzma.compress(data, preset=1))


def png(rnd, width, height):
    def chunk(tag, data):
        return (struct.pack(">I", len(data)) + tag + data
                + struct.pack(">I", zlib.crc32(tag + data)))
    raw = b"".join(b"\0" + rnd.randbytes(3 * width) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height,
                                         8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(raw, 1)) + chunk(b"IEND", b""))


def pdf(pages, text):
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    at = []

    def obj(body):
        at.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (len(at), body))
    kids = b" ".join(b"%d 0 R" % (3 + 2 * i) for i in range(pages))
    obj(b"<</Type/Catalog/Pages 2 0 R>>")
    obj(b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, pages))
    for i in range(pages):
        words = text[1500 * i:1500 * (i + 1)]
        for char in (b"(", b")", b"\\"):
            words = words.replace(char, b" ")
        body = zlib.compress(b"BT /F1 9 Tf 20 700 Td (" + words + b") Tj ET")
        obj(b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]"
            b"/Contents %d 0 R>>" % (4 + 2 * i))
        obj(b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream"
            % (len(body), body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(at) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % n for n in at))
    out.write(b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
              % (len(at) + 1, start))
    return out.getvalue()


def documents(rnd, small):
    made = CORPUS + "/made"
    kinds = (".h", ".html", ".txt", ".pm", ".py", ".xml")
    text = b"".join(get(p) for p in small if p.endswith(kinds))[:2 << 20]
    text = text or b"lorem ipsum " * 100000
    sizes = [(64, 64), (256, 256), (640, 480), (1024, 768), (1920, 1080)]
    for i, (width, height) in enumerate(sizes * 3):
        put("%s/p%02d.png" % (made, i), png(rnd, width, height))
    for i in range(30):
        put("%s/d%02d.pdf" % (made, i), pdf(5 + 4 * i, text[1000 * i:]))
    for i in range(60):
        part = text[3000 * i:3000 * (i + 1) + 2000 * i].replace(b"<", b"&lt;")
        put("%s/h%02d.html" % (made, i),
            b"<!DOCTYPE html><html><body><p>" + part + b"</p></body></html>")
    for i in range(40):
        body = base64.encodebytes(get(small[7 * i % len(small)]))
        put("%s/e%02d.eml" % (made, i),
            b"From: a@example.org\nTo: b@example.org\nSubject: %d\n"
            b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n"
            b"--B\nContent-Type: application/octet-stream; name=f\n"
            b"Content-Transfer-Encoding: base64\n\n%s\n--B--\n" % (i, body))


def hits():
    hit = CORPUS + "/hit"
    put(hit + "/eicar.com", EICAR)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as z:
        z.writestr("eicar.com", EICAR)
    put(hit + "/eicar.zip", inner.getvalue())
    with zipfile.ZipFile(hit + "/eicar2.zip", "w") as z:
        z.writestr("inner.zip", inner.getvalue())
    if os.path.isdir("/usr/share/clamav-testfiles"):
        shutil.copytree("/usr/share/clamav-testfiles",
                        hit + "/clamav-testfiles")


def every(part):
    return sorted(p for p in glob.glob("%s/%s/**" % (CORPUS, part),
                                       recursive=True) if os.path.isfile(p))


def make_corpus():
    if not copies():
        return
    rnd = random.Random(12)
    small, med = every("small"), every("med")
    edges(b"".join(get(p) for p in (med or small)[:20]))
    archives(small, med)
    documents(rnd, small)
    hits()
    cut = small[::15] + med[::8] + every("big")[:2] + every("edge")
    for i, path in enumerate(cut):
        shutil.copyfile(path, "%s/sub/%04d_%s" % (
            CORPUS, i, os.path.basename(path)))
    finish("corpus", repr(PARTS))


WORDS = ("function return include static window document eval script charset "
         "sizeof unsigned struct import class public error buffer memory "
         "length string printf version license copyright table index value "
         "update").split()


def body(rnd):
    """A body signature; half of them begin as real text does."""
    def noise(low, high):
        return bytes(rnd.randrange(1, 256)
                     for _ in range(rnd.randrange(low, high))).hex()
    kind = rnd.random()
    if kind < .5:
        return noise(16, 64)
    sig = (rnd.choice(WORDS) + rnd.choice(" (_.")
           + rnd.choice(WORDS)).encode().hex() + noise(8, 24)
    if kind < .7:
        sig = sig[:24] + "??" + sig[26:]
    if kind > .9:
        sig += "{4-32}" + noise(8, 9)
    return sig


def clam_db(rnd, folder):
    with open(folder + "/test.ndb", "w") as f:
        f.write("Test.Eicar:0:0:%s\n" % EICAR.hex())
        f.write("Test.ClamAV:1:*:%s\n" % b"ClamAV-Test-Signature".hex())
        for i in range(3000):
            target = rnd.choice([0] * 5 + [1, 1, 3, 4, 6, 6, 7])
            offset = rnd.choice(["*"] * 8 + ["0", "EOF-4096"])
            f.write("Test.Body-%d:%d:%s:%s\n"
                    % (i, target, offset, body(rnd)))
    with open(folder + "/test.hdb", "w") as f:
        f.write("%s:%d:Test.Eicar-MD5\n"
                % (hashlib.md5(EICAR).hexdigest(), len(EICAR)))
        exe = CORPUS + "/hit/clamav-testfiles/clam.exe"
        if os.path.exists(exe):
            f.write("%s:%d:Test.ClamAV-exe\n" % (
                hashlib.md5(get(exe)).hexdigest(), os.path.getsize(exe)))
        for i in range(2000):
            f.write("%032x:%d:Test.MD5-%d\n" % (
                rnd.getrandbits(128), rnd.randrange(100, 5000000), i))
    with open(folder + "/test.ldb", "w") as f:
        for i in range(500):
            subs = [body(rnd) for _ in range(rnd.randrange(2, 5))]
            expr = rnd.choice("&|").join(str(j) for j in range(len(subs)))
            f.write("Test.Logic-%d;Engine:81-255,Target:%d;(%s);%s\n" % (
                i, rnd.choice([0, 0, 1, 3, 6, 7]), expr, ";".join(subs)))


def yara_string(rnd, j):
    kind = rnd.random()
    if kind < .4:
        return "$s%d = { %s }" % (j, " ".join(
            "%02x" % rnd.randrange(256) for _ in range(rnd.randrange(8, 24))))
    if kind < .8:
        return '$s%d = "%s_%s_%x"%s' % (
            j, rnd.choice(WORDS), rnd.choice(WORDS), rnd.getrandbits(24),
            rnd.choice(["", " nocase", " wide ascii"]))
    return "$s%d = /%s_[a-z0-9]{4,12}_%x/" % (
        j, rnd.choice(WORDS), rnd.getrandbits(20))


def yara_rules(rnd, folder):
    eicar = 'rule eicar { strings: $a = "%s" condition: $a at 0 }\n' \
        % EICAR.decode().replace("\\", "\\\\")
    elf = "rule elf { condition: uint32(0) == 0x464c457f }\n"
    with open(folder + "/one.yar", "w") as f:
        f.write(elf)
    with open(folder + "/rules.yar", "w") as f:
        f.write(eicar + elf)
        for i in range(300):
            strings = " ".join(yara_string(rnd, j)
                               for j in range(rnd.randrange(2, 5)))
            f.write("rule r%d { strings: %s condition: %s of them }\n"
                    % (i, strings, rnd.choice(["any", "all", "2"])))


def make_db():
    if not done("db", "1"):
        rnd = random.Random(2024)
        os.makedirs(ROOT + "/db/clam")
        clam_db(rnd, ROOT + "/db/clam")
        yara_rules(rnd, ROOT + "/db")
        finish("db", "1")
    for folder in ("run", "tmp"):
        os.makedirs("%s/%s" % (ROOT, folder), exist_ok=True)
    with open(ROOT + "/clamd.conf", "w") as f:
        f.write("""LocalSocket %(root)s/run/clamd.sock
LocalSocketMode 666
FixStaleSocket yes
PidFile %(root)s/run/clamd.pid
LogFile %(root)s/run/clamd.log
DatabaseDirectory %(root)s/db/clam
TemporaryDirectory %(root)s/tmp
User clamav
MaxThreads %(threads)s
MaxQueue 200
IdleTimeout 5
SelfCheck 86400
MaxScanSize 400M
MaxFileSize 200M
StreamMaxLength 200M
DisableCache yes
ConcurrentDatabaseReload no
""" % {"root": ROOT, "threads": os.environ["CLAMD_THREADS"]})


make_corpus()
make_db()
