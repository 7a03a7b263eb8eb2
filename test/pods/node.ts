import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { OwnEngine } from '../containers/engine.ts'
import { PAUSE } from '../containers/stand-ins.ts'

const PODS = '10.244.0.0/16'
/** The end of each pod's network, on the node. */
const GATEWAY = '10.244.0.1'
const SOCKET = '/run/containerd/containerd.sock'
const NAME = 'node'

/** A program of a cluster. */
export type Program = {
  readonly name: string
  /** Its file where it is not that of its name among those that were built. */
  readonly command?: string
  /** A command that succeeds once it is ready; it need not be, where there is none. */
  readonly probe?: string
  readonly args: readonly string[]
}

/**
 * The programs of a node on which containers run, in the order of their start, by files that are
 * written to the folder: containerd, a DNS server, kube-proxy and the kubelet. They run in the
 * namespaces of a container engine.
 */
export function nodePrograms (folder: string, programs: string): readonly Program[] {
  for (const [name, text] of Object.entries(settings(folder))) {
    mkdirSync(join(folder, name, '..'), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return [{
    name: 'containerd',
    command: 'containerd',
    args: ['--config', 'containerd.toml'],
  }, {
    name: 'coredns',
    args: ['-conf', 'Corefile'],
  }, {
    name: 'kube-proxy',
    args: [
      '--kubeconfig', 'kubeconfig', '--hostname-override', NAME,
      '--proxy-mode', 'iptables', '--cluster-cidr', PODS,
      // Limits of the machine stay as they are.
      '--conntrack-max-per-core', '0', '--conntrack-tcp-timeout-established', '0s',
      '--conntrack-tcp-timeout-close-wait', '0s',
    ],
  }, {
    name: 'kubelet',
    probe: 'kubectl wait --for=condition=Ready node --all --timeout=2s',
    command: 'sh',
    args: [
      `${import.meta.dirname}/kubelet.sh`, `${programs}/kubelet`,
      '--config', 'kubelet.json', '--kubeconfig', 'kubeconfig', '--root-dir', `${folder}/kubelet`,
      '--hostname-override', NAME, '--node-labels', 'topology.kubernetes.io/zone=zone-a',
    ],
  }]
}

/** Copies images of the engine to its node, as a registry would bring them. */
export async function loadImages (
  engine: OwnEngine, images: readonly string[]
): Promise<void> {
  await engine.run(['sh', '-c', `docker save ${images.join(' ')} | ` +
    `ctr --address ${SOCKET} --namespace k8s.io images import -`])
}

/** What the programs of a node read from files, by their names. */
const settings = (folder: string): Readonly<Record<string, string>> => ({
  'containerd.toml': `
version = 2
root = "${folder}/containerd"
state = "/run/containerd"
[grpc]
address = "${SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "${PAUSE}"
disable_apparmor = true
# Root of these namespaces may not protect processes from the killer of the kernel.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "/run/runc-without-limits"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "${folder}/cni"
`,
  'cni/pods.conflist': JSON.stringify({
    cniVersion: '1.0.0',
    name: 'pods',
    plugins: [
      {
        type: 'ptp',
        ipMasq: true,
        ipam: {
          type: 'host-local',
          dataDir: `${folder}/addresses`,
          ranges: [[{ subnet: PODS, gateway: GATEWAY }]],
          routes: [{ dst: '0.0.0.0/0' }],
        },
      },
      // The container engine lets nothing else pass.
      { type: 'firewall' },
    ],
  }),
  Corefile: '.:53 {\nerrors\nkubernetes cluster.local {\nkubeconfig kubeconfig\n}\n}\n',
  'kubelet.json': JSON.stringify({
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    // Only the API server reaches it.
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    containerRuntimeEndpoint: `unix://${SOCKET}`,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: '/verification-jobs-engine-node',
    failCgroupV1: false,
    failSwapOn: false,
    oomScoreAdj: 0,
    clusterDNS: [GATEWAY],
    clusterDomain: 'cluster.local',
    podLogsDir: `${folder}/pods`,
    volumePluginDir: `${folder}/plugins`,
    // The disk is that of the machine, however full it is.
    evictionHard: Object.fromEntries(['memory.available', 'nodefs.available', 'nodefs.inodesFree',
      'imagefs.available', 'imagefs.inodesFree'].map(signal => [signal, '0%'])),
    imageGCHighThresholdPercent: 100,
  }),
})
