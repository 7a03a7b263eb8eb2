import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { OpenApiDocument } from '../../../services/ingest/openapi.ts'
import { startEnvironment, type Environment } from '../../support/stacks/environment.ts'
import { newFolder } from '../../support/folder.ts'
import { installClientPython, installGenerator, requireClientGo } from './install.ts'

const run = promisify(execFile)
const folder = newFolder('generated-clients-')
const say = (line: string) => { console.log(line) }

let environment: Environment
let description: OpenApiDocument
beforeAll(async () => {
  environment = await startEnvironment()
  const response = await fetch(new URL('/openapi.json', environment.baseUrl))
  description = await response.json() as OpenApiDocument
  writeFileSync(join(folder, 'openapi.json'), JSON.stringify(description))
})
afterAll(async () => {
  await environment.stop()
  rmSync(folder, { recursive: true })
})

/** Generates a client in a folder of its own, as the guide says. */
async function generate (language: string, options: readonly string[]): Promise<string> {
  const output = join(folder, language)
  const jar = await installGenerator(say)
  await run('java', ['-jar', jar, 'generate', '-g', language, '-i', join(folder, 'openapi.json'),
    '-o', output, ...options], { maxBuffer: 1e8 })
  return output
}

const environmentOf = () => ({
  ...process.env,
  HOST: new URL(environment.baseUrl).origin,
  KEY: environment.keys.live,
  ...signedWebhook(),
  GOFLAGS: '-mod=mod',
})

/** An event as a receiver gets it. */
function signedWebhook () {
  const [time, body] = [Math.floor(Date.now() / 1_000), '{"id":"evt_1"}']
  const secret = 'whsec_c2VjcmV0'
  const digest = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')
  return {
    WEBHOOK_SECRET: secret, WEBHOOK_BODY: body, WEBHOOK_SIGNATURE: `t=${time},v1=${digest}`,
  }
}

/** The operations of the interface whose name, written this way, the generated files lack. */
function missingIn (output: string, files: string, nameOf: (id: string) => string) {
  const text = globSync(files, { cwd: output })
    .map(file => readFileSync(join(output, file), 'utf8'))
  const ids = Object.values(description.paths).flatMap(item =>
    Object.values(item).map(({ operationId = '' }) => operationId))
  expect(ids.length).toBeGreaterThan(10)
  return ids.filter(id => !text.some(one => one.includes(nameOf(id))))
}

function expectJob (output: string, language: string): void {
  const { id, csv, ...found } = JSON.parse(output) as Record<string, unknown>
  expect(found).toEqual({
    repeated: id,
    listed: id,
    maxQuoteMicros: 2_000,
    status: 'completed',
    chargedMicros: 2_000,
    metadata: { language },
    rows: [[1, 'valid', '+12127365000', null], [2, 'valid', '+12127365000', 'customer-17']],
    hasMore: true,
    currency: 'USD',
    refused: 'job_not_found',
    webhooks: [true, false],
  })
  // The Go client accepts JSON only.
  if (language !== 'go') expect(csv).toMatch(/^row,input,phone,e164,country,/)
}

describe('a client generated from the description of the interface', () => {
  it('in Python has every operation and runs a job', async () => {
    const output = await generate('python', [
      '--additional-properties', 'packageName=verification_jobs',
    ])
    const snake = (id: string) => id.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
    expect(missingIn(output, 'verification_jobs/api/*.py', id => `def ${snake(id)}(`)).toEqual([])
    const python = await installClientPython(say)
    const { stdout } = await run(python, [`${import.meta.dirname}/job.py`], {
      env: { ...environmentOf(), PYTHONPATH: output, PYTHONDONTWRITEBYTECODE: '1' },
    })
    expectJob(stdout, 'python')
  })

  it('in Go has every operation and runs a job', async () => {
    const module = 'example.com/verification-jobs'
    const output = await generate('go', ['--git-host', 'example.com', '--git-user-id', '',
      '--git-repo-id', 'verification-jobs', '--additional-properties',
      'packageName=verificationjobs,withGoMod=false'])
    writeFileSync(join(output, 'go.mod'), `module ${module}\n\ngo 1.23\n`)
    mkdirSync(join(output, 'job'))
    copyFileSync(`${import.meta.dirname}/job.go`, join(output, 'job/main.go'))
    const method = (id: string) => `${id.charAt(0).toUpperCase()}${id.slice(1)}(ctx context.Context`
    expect(missingIn(output, 'api_*.go', method)).toEqual([])
    const { stdout } = await run(await requireClientGo(), ['run', './job'], {
      cwd: output, env: environmentOf(),
    })
    expectJob(stdout, 'go')
  })

  it('in Java has every operation and runs a job', async () => {
    const name = 'com.example.verificationjobs'
    const output = await generate('java', [
      // Else it imports types of forms that it does not make.
      '--global-property', 'skipFormModel=false', '--additional-properties',
      `invokerPackage=${name},apiPackage=${name}.api,modelPackage=${name}.model`,
    ])
    expect(missingIn(output, 'src/main/java/**/api/*.java', id => ` ${id}(`)).toEqual([])
    await run('mvn', ['-B', '-q', '-Dmaven.test.skip=true', 'compile',
      'dependency:copy-dependencies', '-DincludeScope=compile'], { cwd: output, maxBuffer: 1e8 })
    const classes = 'target/classes:target/dependency/*'
    const program = `${import.meta.dirname}/RunJob.java`
    await run('javac', ['-cp', classes, '-d', 'target/classes', program], { cwd: output })
    const { stdout } = await run('java', ['-cp', classes, 'RunJob'], {
      cwd: output, env: environmentOf(),
    })
    expectJob(stdout, 'java')
  })

  // Without .NET it is not compiled here.
  it('in C# has every operation', async () => {
    const output = await generate('csharp', [
      '--additional-properties', 'packageName=VerificationJobs',
    ])
    const pascal = (id: string) => `${id.charAt(0).toUpperCase()}${id.slice(1)}`
    expect(missingIn(output, 'src/VerificationJobs/Api/*.cs', id => ` ${pascal(id)}Async(`))
      .toEqual([])
  })
})
