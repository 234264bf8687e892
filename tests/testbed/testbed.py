#!/usr/bin/env python3
"""A small cluster on one Linux machine: hosts are network namespaces on a bridge, every cable has a rate and
shares it evenly among its flows.

    sudo tests/testbed/testbed.py --hosts 8 --rate 200 --write /tmp/bed -- build/release/foreduce run --algorithm ring --transport ofi

runs the command once on every host with torchrun's variables set (RANK, WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT) and returns the
worst exit status. --write leaves host.yaml (and slow.yaml) and cluster.yaml there: the same cluster for foreduce to predict.

Everything lives in namespaces of this process, so nothing is left behind, however it ends. Exit status 77: this machine cannot do it
(not root, or no namespaces), with the reason on stderr.
"""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

MTU = 3000  # large enough for two cores to carry all packets, small enough that a small message is several
# What a connection may have on its way. Bounded, so that no packet is lost in a port (which costs TCP 200 ms), as on a fabric with credits.
WINDOW = 128 * 1024
BURST = 1000  # bytes a rested cable may send at once: a late timer costs no rate. A first packet passes whole in any case; less than one, so no second does


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--hosts", type=int, default=8)
    p.add_argument("--rate", type=float, default=200, help="Mbit/s of every cable, each direction")
    p.add_argument("--ranks-per-host", type=int, default=1, help="only for the files of --write")
    p.add_argument("--leaves", type=int, default=1, choices=[1, 2], help="2: two bridges joined by a trunk")
    p.add_argument("--oversubscription", type=float, default=1, help="of the trunk: rate of a leaf's hosts over the trunk's")
    p.add_argument("--slow", metavar="HOST:RATE", help="one host's cable is slower, Mbit/s")
    p.add_argument("--cut", metavar="HOST:SECONDS", help="pull that host's cable so long after the start")
    p.add_argument("--kill", metavar="HOST:SECONDS", help="kill -9 that host's process so long after the start")
    p.add_argument("--write", metavar="DIR", help="write the matching topology and scenario there")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("command", nargs=argparse.REMAINDER)
    a = p.parse_args()
    a.command = a.command[1:] if a.command[:1] == ["--"] else a.command
    if a.hosts < 2 or a.rate <= 0 or a.oversubscription < 1 or (not a.command and not a.write):
        p.error("two hosts, a positive rate, an oversubscription of at least 1 and a command (or --write) are needed")
    for name in ("slow", "cut", "kill"):
        text = getattr(a, name)
        if text is None:
            continue
        try:
            host, number = text.split(":")
            setattr(a, name, (int(host), float(number)))
        except ValueError:
            p.error(f"--{name} takes HOST:NUMBER, not '{text}'")
        if not 0 <= getattr(a, name)[0] < a.hosts:
            p.error(f"--{name}: there is no host {host}")
    return a


def cannot(why):
    print(f"testbed: skipped: {why}", file=sys.stderr)
    sys.exit(77)


def why_not(*words):
    """Runs a command; what it complained of, empty if it succeeded."""
    done = subprocess.run([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return "" if done.returncode == 0 else f"{' '.join(map(str, words))}: {done.stderr.strip() or done.returncode}"


def sh(*words):
    if why := why_not(*words):
        sys.exit(f"testbed: {why}")


def rate_of(a, host):
    return a.slow[1] if a.slow and a.slow[0] == host else a.rate


def shape(a, device, mbit, fields, namespace=None):
    """A cable's rate, shared evenly among the flows that it carries, told apart by what `fields` says of a packet ("src", "dst"): a class for
    each, served in turn, a packet at a time. What a rested cable saves up is kept small, or small messages would travel at no cost; so a class has next
    to no rate of its own either, and borrows all from the cable."""
    inside = ["ip", "netns", "exec", namespace] if namespace else []
    sh(*inside, "ip", "link", "set", device, "mtu", MTU, "gso_max_segs", 1, "txqueuelen", 10000)
    tc = [*inside, "tc"]
    here = ["dev", device]
    hosts = range(a.hosts)
    flows = [{"src": s, "dst": d} for s in hosts for d in hosts] if len(fields) == 2 else [{fields[0]: h} for h in hosts]
    little = ["rate", "1kbit"]
    packet = ["burst", BURST, "cburst", BURST, "quantum", MTU + 200]
    sh(*tc, "qdisc", "add", *here, "root", "handle", "1:", "htb", "default", 2)
    sh(*tc, "class", "add", *here, "parent", "1:", "classid", "1:1", "htb", "rate", f"{mbit}mbit", *packet)
    sh(*tc, "class", "add", *here, "parent", "1:1", "classid", "1:2", "htb", *little, "ceil", f"{mbit}mbit", *packet)
    for number, flow in enumerate(flows, 16):
        sh(*tc, "class", "add", *here, "parent", "1:1", "classid", f"1:{number:x}", "htb", *little, "ceil", f"{mbit}mbit", *packet)
        match = [word for field, host in flow.items() for word in ("match", "ip", field, f"{address(host)}/32")]
        sh(*tc, "filter", "add", *here, "parent", "1:", "protocol", "ip", "prio", 1, "u32", *match, "flowid", f"1:{number:x}")


def address(host):
    return f"10.77.0.{host + 1}"


def build(a):
    # What this kernel, or who gave us root, may refuse. Whatever fails beyond is a mistake of ours.
    for probe in ["mount -t tmpfs none /run", "mkdir /run/netns", "ip netns add probe", "ip link add probe0 type veth peer name probe1", "ip link add probe2 type bridge",
                  "tc qdisc add dev probe0 root handle 1: htb default 2"]:
        if why := why_not(*probe.split()):
            cannot(why)
    for undo in ["ip link del probe0", "ip link del probe2", "ip netns del probe"]:
        sh(*undo.split())
    for leaf in range(a.leaves):
        sh("ip", "link", "add", f"leaf{leaf}", "mtu", MTU, "type", "bridge")
        sh("ip", "link", "set", f"leaf{leaf}", "up")
    per_leaf = -(-a.hosts // a.leaves)
    if a.leaves == 2:
        sh("ip", "link", "add", "trunk0", "type", "veth", "peer", "name", "trunk1")
        for leaf in range(2):
            shape(a, f"trunk{leaf}", a.rate * per_leaf / a.oversubscription, ["src", "dst"])
            sh("ip", "link", "set", f"trunk{leaf}", "master", f"leaf{leaf}", "up")
    for host in range(a.hosts):
        name = f"h{host}"
        sh("ip", "netns", "add", name)
        sh("ip", "link", "add", f"port{host}", "type", "veth", "peer", "name", "eth0", "netns", name)
        shape(a, f"port{host}", rate_of(a, host), ["src"])
        shape(a, "eth0", rate_of(a, host), ["dst"], name)
        sh("ip", "link", "set", f"port{host}", "master", f"leaf{host // per_leaf}", "up")
        sh("ip", "-n", name, "addr", "add", f"{address(host)}/24", "dev", "eth0")
        sh("ip", "-n", name, "link", "set", "eth0", "up")
        sh("ip", "-n", name, "link", "set", "lo", "up")
        # A connection begins with its whole window: ten packets (RFC 6928) are less than a message of 32 KiB, whose last packets would wait for
        # acknowledgements that queue behind what the peer sends.
        sh("ip", "-n", name, "route", "replace", "10.77.0.0/24", "dev", "eth0", "src", address(host), "initcwnd", WINDOW // MTU, "initrwnd", WINDOW // MTU)
        # The window stays open between messages; the loss-based control where the machine has it, since nothing is lost here. Half of a
        # receiver's buffer is window, the kernel keeps the rest for its own.
        sh("ip", "netns", "exec", name, "sh", "-c", "cd /proc/sys/net/ipv4; echo 0 >tcp_slow_start_after_idle; echo 1 >tcp_no_metrics_save; "
           f"echo 1 >tcp_adv_win_scale; echo 4096 {2 * WINDOW} {2 * WINDOW} >tcp_rmem; "
           "for control in cubic reno; do echo $control >tcp_congestion_control && break; done 2>/dev/null; true")


def write(a):
    folder = pathlib.Path(a.write)
    folder.mkdir(parents=True, exist_ok=True)

    def machine(name, mbit):
        gpus = list(range(a.ranks_per_host))
        (folder / f"{name}.yaml").write_text(f"""# A host of the testbed. "GPUs" are ranks: threads of one process. What a message costs beyond this is for a calibration to say.
instance: {name}
gpu: {{ model: rank, count: {a.ranks_per_host}, reduce_bandwidth: 4 GB/s }}
host: {{ cpu: shared by all hosts, sockets: 1, memory_bandwidth: 10 GB/s, reduce_bandwidth: 4 GB/s }}
pcie: {{ bandwidth: 10 GB/s, latency: 1 us, switches: [{{ socket: 0, gpus: {gpus}, nics: [0] }}] }}
nic: {{ count: 1, bandwidth: {mbit:g} Mbps, latency: 50 us, gpudirect: yes }}
""")
    machine("host", a.rate)
    if a.slow:
        machine("slow", a.slow[1])
        host = a.slow[0]
        parts = [("host", host), ("slow", 1), ("host", a.hosts - host - 1)]
        mixed = ", ".join(f"{{ instance: ./{name}.yaml, nodes: {count} }}" for name, count in parts if count > 0)
        machines = f"mixed: [{mixed}]"
    else:
        machines = f"instance: ./host.yaml, nodes: {a.hosts}"
    fabric = f", fabric: {{ nodes_per_leaf: {-(-a.hosts // 2)}, oversubscription: {a.oversubscription:g} }}" if a.leaves == 2 else ""
    (folder / "cluster.yaml").write_text(f"""name: testbed of {a.hosts} hosts at {a.rate:g} Mbit/s
cluster: {{ {machines}{fabric} }}
allreduce: {{ algorithm: ring }}
messages: {{ sizes: 1 MiB, dtype: f32 }}
""")


def run(a):
    started = time.monotonic()
    children = []
    for host in range(a.hosts):
        environment = dict(os.environ, RANK=str(host), WORLD_SIZE=str(a.hosts), LOCAL_RANK="0", GROUP_RANK=str(host), MASTER_ADDR=address(0), MASTER_PORT="29500")
        children.append(subprocess.Popen(["ip", "netns", "exec", f"h{host}"] + a.command, env=environment))
    worst = 0
    while any(c.poll() is None for c in children):
        passed = time.monotonic() - started
        if a.cut and passed > a.cut[1]:
            sh("ip", "link", "set", f"port{a.cut[0]}", "down")
            a.cut = None
        if a.kill and passed > a.kill[1]:
            children[a.kill[0]].send_signal(signal.SIGKILL)  # ip netns exec has become the command
            a.kill = None
        time.sleep(0.02)
    for c in children:
        worst = max(worst, c.returncode if c.returncode >= 0 else 128 - c.returncode)
    return worst


def main():
    a = parse()
    if a.inside:
        build(a)
        sys.exit(run(a))
    if a.write:
        write(a)
        if not a.command:
            return
    if os.geteuid() != 0:
        cannot("only root may make network namespaces and shape their cables")
    for tool in ("ip", "tc", "unshare"):
        if not shutil.which(tool):
            cannot(f"{tool} is missing (apt install iproute2 util-linux)")
    # This process becomes the one that holds the namespaces: whatever ends it ends them, and with them cables, bridges and hosts.
    inside = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, os.path.abspath(__file__), "--inside"]
    os.execvp(inside[0], inside + sys.argv[1:])


if __name__ == "__main__":
    main()
