import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { promisify } from 'node:util'
import { installOnce } from '../../../deploy/local/install.ts'
import type { Say } from '../../../deploy/local/parts.ts'
import { requireGo } from './deploy-tools.ts'

const run = promisify(execFile)
const BUILD_TIMEOUT_MS = 1_200_000

/** Newer ones could not be fetched whole. */
const CORE = 'v0.160.0'
/** What is stable of the same release has a version of its own. */
const STABLE = 'v1.66.0'
const MODULES = 'go.opentelemetry.io/collector'

/** What the collector is made of: it takes OTLP and passes it on. JSON is YAML as well. */
const manifest = (folder: string) => ({
  dist: { name: 'collector', output_path: folder },
  receivers: [{ gomod: `${MODULES}/receiver/otlpreceiver ${CORE}` }],
  exporters: [{ gomod: `${MODULES}/exporter/otlphttpexporter ${CORE}` }],
  providers: ['env', 'file'].map(name =>
    ({ gomod: `${MODULES}/confmap/provider/${name}provider ${STABLE}` })),
})

/**
 * The program of the OpenTelemetry Collector, built by the builder of the project from the Go
 * module proxy when it is missing.
 */
export async function installCollector (say: Say): Promise<string> {
  const home = await installOnce(`opentelemetry-collector-${CORE}`, async to => {
    const go = await requireGo()
    say('building the OpenTelemetry Collector with Go (some minutes, once)')
    const folder = mkdtempSync(`${tmpdir()}/verification-jobs-collector-`)
    const options = {
      env: { ...process.env, GOBIN: to, GOFLAGS: '' }, timeout: BUILD_TIMEOUT_MS, cwd: folder,
    }
    try {
      await run(go, ['install', `${MODULES}/cmd/builder@${CORE}`], options)
      writeFileSync(`${folder}/builder.yaml`, JSON.stringify({
        ...manifest(to), dist: { ...manifest(to).dist, go },
      }))
      await run(`${to}/builder`, ['--config', 'builder.yaml'], options)
      rmSync(`${to}/builder`)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
  return `${home}/collector`
}
