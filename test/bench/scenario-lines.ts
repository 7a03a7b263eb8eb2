import { fixed, formatPercentiles, type Line } from './format.ts'
import { percentilesOf } from './percentiles.ts'
import type { Report } from './report.ts'
import type { CrowdFigures } from './scenarios/crowd.ts'
import type { EmailFigures } from './scenarios/email.ts'
import type { FairnessFigures } from './scenarios/fairness.ts'
import type { GrowthFigures } from './scenarios/growth.ts'
import type { PartnersFigures } from './scenarios/partners.ts'
import type { HopFigures, PeersFigures } from './scenarios/peers.ts'
import type { RecoveryFigures, RecoveryStep } from './scenarios/recovery.ts'
import type { PostFigures, ScalingFigures } from './scenarios/scaling.ts'
import {
  MAX_P95_MS, STEADY_JOBS_PER_SECOND, type SmallFigures, type SmallJobsFigures,
} from './scenarios/small.ts'
import type { SoakFigures } from './scenarios/soak.ts'
import type { StateFigures } from './scenarios/state.ts'
import type { VerificationFigures } from './scenarios/verifications.ts'
import type { WebhookFigures } from './scenarios/webhooks.ts'

/** Formats the figures of the scenarios that ran. */
export function scenarioLines (report: Report): readonly Line[] {
  const { growth, crowd, scaling, webhooks, email, fairness } = report
  const { verifications, recovery, small, partners, soak, peers, state } = report
  return [
    ...growth === undefined ? [] : growthLines(growth),
    ...crowd === undefined ? [] : crowdLines(crowd),
    ...scaling === undefined ? [] : scalingLines(scaling),
    ...webhooks === undefined ? [] : webhookLines(webhooks),
    ...email === undefined ? [] : emailLines(email),
    ...verifications === undefined ? [] : verificationLines(verifications),
    ...fairness === undefined ? [] : fairnessLines(fairness),
    ...recovery === undefined ? [] : recoveryLines(recovery),
    ...small === undefined ? [] : smallLines(small),
    ...partners === undefined ? [] : partnerLines(partners),
    ...soak === undefined ? [] : soakLines(soak),
    ...peers === undefined ? [] : peerLines(peers),
    ...state === undefined ? [] : stateLines(state),
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
    ['crowd: 100 rows, idle', formatPercentiles(crowd.idle)],
    ['crowd: 100 rows, under load',
      `${formatPercentiles(crowd.underLoad)}, ${crowd.samples} samples`],
    ...crowd.processes.map(({ name, peakMb }): Line =>
      [`crowd: ${name}`, `peak ${fixed(peakMb)} MB`]),
  ]
}

function scalingLines ({ steps, steady, rebalancing }: ScalingFigures): readonly Line[] {
  return [
    ...steps.map(({ normalize, verify, rowsPerSecond }): Line =>
      [`scaling: normalize ${normalize}, verify ${verify}`, `${fixed(rowsPerSecond)} rows/s`]),
    ['scaling: POST, stable groups', postText(steady)],
    ['scaling: POST, rebalancing', postText(rebalancing)],
  ]
}

function postText ({ posts, p50Ms, p99Ms, unavailable, otherRefusals }: PostFigures): string {
  return `p50 ${fixed(p50Ms)} ms, p99 ${fixed(p99Ms)} ms of ${posts} samples; ` +
    `${unavailable} times 503, ${otherRefusals} other refusals`
}

function webhookLines (webhooks: WebhookFigures): readonly Line[] {
  const { deliveries, deliveriesPerSecond, jobsPerSecond } = webhooks
  return [
    [`webhooks: ${deliveries}`, `${fixed(deliveriesPerSecond)} deliveries/s`],
    ['webhooks: one-row jobs', `${fixed(jobsPerSecond)} jobs/s`],
  ]
}

function emailLines ({ rows, domains, wallMs, rowsPerSecond }: EmailFigures): readonly Line[] {
  return [[`e-mail: ${rows} rows`,
    `${fixed(wallMs)} ms, ${fixed(rowsPerSecond)} rows/s, ${domains} domains`]]
}

function verificationLines (
  { cached, fresh, cached100, backToBack }: VerificationFigures
): readonly Line[] {
  return [
    ['verification: one cached', formatPercentiles(cached)],
    ['verification: one fresh', formatPercentiles(fresh)],
    ['verification: 100 cached', formatPercentiles(cached100)],
    ['the same of one, no pauses', formatPercentiles(backToBack)],
  ]
}

function fairnessLines (fairness: FairnessFigures): readonly Line[] {
  const { baselineMs, underLoadMs, largeJobsMs, ratio, unavailable, jainIndex } = fairness
  return [
    ['fairness: a job alone', `${fixed(baselineMs)} ms`],
    ['fairness: beside ten large', `${formatPercentiles(percentilesOf(underLoadMs))} of ` +
      `${underLoadMs.length} samples, ${unavailable} times 5xx`],
    ['fairness: beside / alone', fixed(ratio, 2)],
    ['fairness: the ten large jobs', `${fixed(largeJobsMs)} ms`],
    ['fairness: Jain\'s index of ten', fixed(jainIndex, 3)],
  ]
}

function recoveryLines (
  { afterKill, afterDataLoss, openJobs, idlePercent, idleTenants, bytesPerJob }: RecoveryFigures
): readonly Line[] {
  const text = ({ firstAcceptedMs, allUnlockedMs, peakMb }: RecoveryStep) =>
    `first 202 ${fixed(firstAcceptedMs)} ms, all ${fixed(allUnlockedMs)} ms, ` +
    `ledger ${fixed(peakMb)} MB`
  return [
    ...afterKill.map((step): Line => [`recovery: ${step.entries} entries, killed`, text(step)]),
    [`recovery: ${afterDataLoss.entries} entries, data lost, ${openJobs} jobs open`,
      text(afterDataLoss)],
    [`recovery: ${idleTenants} idle tenants`, `ledger ${fixed(idlePercent, 2)} % of a core`],
    ['recovery: a job after an hour', `${fixed(bytesPerJob)} bytes in the state Redis`],
  ]
}

function smallLines (small: SmallFigures): readonly Line[] {
  const { residentMb, proportionalMb, oneFresh, oneCached, steady, highest } = small
  return [
    ['small: memory after start',
      `${fixed(residentMb)} MB resident, ${fixed(proportionalMb)} MB with shared pages once`],
    ['small: one fresh contact', formatPercentiles(oneFresh)],
    ['small: one cached contact', formatPercentiles(oneCached)],
    ...smallJobsLines(`small: ${STEADY_JOBS_PER_SECOND} jobs/s`, steady),
    ...highest === undefined
      ? []
      : smallJobsLines(`small: p95 < ${MAX_P95_MS} ms, ${highest.clients} clients`, highest),
  ]
}

function smallJobsLines (name: string, figures: SmallJobsFigures): readonly Line[] {
  const { jobs, jobsPerSecond, post, refused, cpuMsPerJob, processes } = figures
  return [
    [name, `${fixed(jobsPerSecond, 1)} jobs/s, POST ${formatPercentiles(post)}, ` +
      `${jobs} jobs, ${refused} refused`],
    ['  CPU per job', `${fixed(cpuMsPerJob, 2)} ms`],
    ...processes.map((process): Line =>
      [`    ${process.name}`, `${fixed(process.cpuMsPerJob, 2)} ms`]),
  ]
}

function partnerLines ({ steps }: PartnersFigures): readonly Line[] {
  return steps.flatMap((step): readonly Line[] => [
    [`partners: ${step.partners}`,
      `${step.topics} topics, ${step.partitions} partitions, ${step.connections} connections`],
    ['  feed', `ready after ${fixed(step.readyMs)} ms, ${fixed(step.feedMb)} MB`],
    ['  idle CPU', `feed ${fixed(step.feedPercent, 2)} %, Kafka ${fixed(step.kafkaPercent, 2)} ` +
      `%, state Redis ${fixed(step.redisPercent, 2)} % of a core`],
    ['  partner create', `${fixed(step.createMs)} ms, command ${fixed(step.commandMs)} ms`],
  ])
}

function soakLines ({ minutes, jobs, rowsVerified, growth }: SoakFigures): readonly Line[] {
  const start = minutes < 4 ? 'a quarter of it' : 'the first minute'
  return [
    [`soak: ${minutes} minutes`, `${jobs} jobs, ${rowsVerified} rows`],
    ...growth.map(({ name, firstMb, lastMb, ratio }): Line => [`soak: ${name}`,
      `${fixed(firstMb)} MB after ${start}, ${fixed(lastMb)} MB at the end, ` +
      `ratio ${fixed(ratio, 2)}`]),
  ]
}

function peerLines ({ bareLoopMs, kafkajs, platformatic, sealed }: PeersFigures): readonly Line[] {
  const text = ({ wallMs, ratio }: HopFigures) => `${fixed(wallMs)} ms, ratio ${fixed(ratio, 2)}`
  return [
    ['peers: bare loop', `${fixed(bareLoopMs)} ms`],
    ['peers: plain kafkajs', text(kafkajs)],
    ['peers: plain platformatic', text(platformatic)],
    ['peers: sealed normalize', text(sealed)],
  ]
}

function stateLines (
  { jobs, jobsPerSecond, cpuMsPerJob, corePercent, clientPercent }: StateFigures
): readonly Line[] {
  return [
    ['state: one-row jobs, one state Redis', `${fixed(jobsPerSecond)} jobs/s, ${jobs} jobs`],
    ['  CPU', `${fixed(cpuMsPerJob, 2)} ms per job, ${fixed(corePercent)} % of a core, ` +
      `the client ${fixed(clientPercent)} %`],
  ]
}
