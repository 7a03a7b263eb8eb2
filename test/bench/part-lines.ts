import type { CrowdFigures } from './parts/crowd.ts'
import type { EmailFigures } from './parts/email.ts'
import type { FairnessFigures } from './parts/fairness.ts'
import type { GrowthFigures } from './parts/growth.ts'
import type { HopFigures, PeersFigures } from './parts/peers.ts'
import type { RecoveryFigures, RecoveryStep } from './parts/recovery.ts'
import type { PostFigures, ScalingFigures } from './parts/scaling.ts'
import type { SoakFigures } from './parts/soak.ts'
import type { WebhookFigures } from './parts/webhooks.ts'
import type { Report } from './report.ts'
import { spreadOf } from './spread.ts'
import { fixed, spread, type Line } from './text.ts'

/** The figures of the parts that were measured, as people read them. */
export function partLines (report: Report): readonly Line[] {
  const { growth, crowd, scaling, webhooks, email, fairness } = report
  const { recovery, soak, peers } = report
  return [
    ...growth === undefined ? [] : growthLines(growth),
    ...crowd === undefined ? [] : crowdLines(crowd),
    ...scaling === undefined ? [] : scalingLines(scaling),
    ...webhooks === undefined ? [] : webhookLines(webhooks),
    ...email === undefined ? [] : emailLines(email),
    ...fairness === undefined ? [] : fairnessLines(fairness),
    ...recovery === undefined ? [] : recoveryLines(recovery),
    ...soak === undefined ? [] : soakLines(soak),
    ...peers === undefined ? [] : peerLines(peers),
  ]
}

function growthLines ({ steps, ratio }: GrowthFigures): readonly Line[] {
  return [
    ...steps.map(({ rows, wallMs }): Line => [`growth: ${rows} rows`, `${fixed(wallMs)} ms`]),
    ['growth: all / a tenth', fixed(ratio, 2)],
  ]
}

function crowdLines (crowd: CrowdFigures): readonly Line[] {
  return [
    [`crowd: ${crowd.jobs} jobs at once`, `${fixed(crowd.rowsPerSecond)} rows/s`],
    ['crowd: neighbour before', spread(crowd.idle)],
    ['crowd: neighbour beside', `${spread(crowd.beside)}, ${crowd.samples} jobs`],
    ...crowd.processes.map(({ name, peakMb }): Line =>
      [`crowd: ${name}`, `peak ${fixed(peakMb)} MB`]),
  ]
}

function scalingLines ({ steps, steady, moving }: ScalingFigures): readonly Line[] {
  return [
    ...steps.map(({ normalize, verify, rowsPerSecond }): Line =>
      [`scaling: normalize ${normalize}, verify ${verify}`, `${fixed(rowsPerSecond)} rows/s`]),
    ['scaling: POST, groups at rest', postText(steady)],
    ['scaling: POST, groups move', postText(moving)],
  ]
}

function postText ({ posts, p50Ms, p99Ms, unavailable, otherRefusals }: PostFigures): string {
  return `p50 ${fixed(p50Ms)} ms, p99 ${fixed(p99Ms)} ms of ${posts}; ${unavailable} times 503, ` +
    `${otherRefusals} other refusals`
}

function webhookLines (webhooks: WebhookFigures): readonly Line[] {
  const { deliveries, deliveriesPerSecond, jobsPerSecond } = webhooks
  return [
    [`webhooks: ${deliveries}`, `${fixed(deliveriesPerSecond)} deliveries/s`],
    ['webhooks: jobs of one row', `${fixed(jobsPerSecond)} jobs/s`],
  ]
}

function emailLines ({ rows, domains, wallMs, rowsPerSecond }: EmailFigures): readonly Line[] {
  return [[`e-mail: ${rows} rows`,
    `${fixed(wallMs)} ms, ${fixed(rowsPerSecond)} rows/s, ${domains} domains`]]
}

function soakLines ({ minutes, jobs, rowsVerified, growth }: SoakFigures): readonly Line[] {
  const begun = minutes < 4 ? 'a quarter of it' : 'the first minute'
  return [
    [`soak: ${minutes} minutes`, `${jobs} jobs, ${rowsVerified} rows`],
    ...growth.map(({ name, firstMb, lastMb, ratio }): Line => [`soak: ${name}`,
      `${fixed(firstMb)} MB after ${begun}, ${fixed(lastMb)} MB at the end, ${fixed(ratio, 2)}`]),
  ]
}

function peerLines ({ bareLoopMs, kafkajs, platformatic, sealed }: PeersFigures): readonly Line[] {
  const text = ({ wallMs, ratio }: HopFigures) => `${fixed(wallMs)} ms, ${fixed(ratio, 2)} of it`
  return [
    ['peers: bare loop beside', `${fixed(bareLoopMs)} ms`],
    ['peers: plain kafkajs', text(kafkajs)],
    ['peers: plain platformatic', text(platformatic)],
    ['peers: sealed normalize', text(sealed)],
  ]
}

function fairnessLines (fairness: FairnessFigures): readonly Line[] {
  const { aloneMs, besideMs, bigMs, ratio, unavailable, jain } = fairness
  return [
    ['fairness: a job alone', `${fixed(aloneMs)} ms`],
    ['fairness: beside ten big ones', `${spread(spreadOf(besideMs))} of ${besideMs.length}, ` +
      `${unavailable} times 5xx`],
    ['fairness: beside / alone', fixed(ratio, 2)],
    ['fairness: the ten big ones', `${fixed(bigMs)} ms`],
    ['fairness: Jain of ten equals', fixed(jain, 3)],
  ]
}

function recoveryLines (
  { killed, emptied, idlePercent, idleTenants }: RecoveryFigures
): readonly Line[] {
  const text = ({ firstMs, lastMs, peakMb }: RecoveryStep) =>
    `first 202 ${fixed(firstMs)} ms, all ${fixed(lastMs)} ms, ledger ${fixed(peakMb)} MB`
  return [
    ...killed.map((step): Line => [`recovery: ${step.entries} entries, killed`, text(step)]),
    [`recovery: ${emptied.entries} entries, emptied`, text(emptied)],
    [`recovery: ${idleTenants} idle tenants`, `ledger ${fixed(idlePercent, 2)} % of a core`],
  ]
}
