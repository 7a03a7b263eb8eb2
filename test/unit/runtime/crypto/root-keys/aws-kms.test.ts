import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createRootKeys } from '../../../../../services/runtime/crypto/root-keys.ts'
import { SealError } from '../../../../../services/runtime/crypto/seal.ts'
import { ConfigError } from '../../../../../services/runtime/platform/config.ts'
import { FatalError, InfrastructureError } from '../../../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../../../services/runtime/platform/metrics.ts'
import { eventually } from '../../../../support/eventually.ts'
import { rootKeyCalls } from '../../../../support/metrics.ts'
import { startReceiver, type Receiver } from '../../../../support/webhooks/receiver.ts'
import { context, failureOf, key, provider } from './provider.ts'

const ARN = 'arn:aws:kms:eu-west-3:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab'
const local = Buffer.alloc(32, 1).toString('base64')

type Input = {
  readonly KeyId: string
  readonly EncryptionContext: Readonly<Record<string, string>>
  readonly Plaintext?: string
  readonly CiphertextBlob?: string
}

/** What AWS KMS does, with one key. */
function answer (response: ServerResponse, body: string): void {
  const { KeyId, EncryptionContext, Plaintext, CiphertextBlob = '' } = JSON.parse(body) as Input
  const binding = Object.entries(EncryptionContext).sort().flat()
  try {
    response.end(JSON.stringify(Plaintext === undefined
      ? { KeyId, Plaintext: provider.decrypt(CiphertextBlob, binding) }
      : { KeyId, CiphertextBlob: provider.encrypt(Plaintext, binding) }))
  } catch {
    fail(response, 400, 'InvalidCiphertextException')
  }
}

function fail (response: ServerResponse, status: number, type: string): void {
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' })
  response.end(JSON.stringify({ __type: type, message: 'a text of AWS' }))
}

let respond: (response: ServerResponse, body: string, path: string) => void
let receiver: Receiver
beforeAll(async () => {
  receiver = await startReceiver((response, { body, path }) => respond(response, body, path))
})
beforeEach(() => {
  respond = answer
  vi.unstubAllEnvs()
  for (const [name, value] of Object.entries({
    AWS_ENDPOINT_URL_KMS: `http://127.0.0.1:${receiver.port}`,
    AWS_REGION: 'eu-central-1',
    AWS_ACCESS_KEY_ID: 'AKIAIOSFODNN7EXAMPLE',
    AWS_SECRET_ACCESS_KEY: 'a-secret-access-key',
    AWS_MAX_ATTEMPTS: '1',
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_CONFIG_FILE: '/nonexistent',
    AWS_SHARED_CREDENTIALS_FILE: '/nonexistent',
  })) vi.stubEnv(name, value)
})

afterAll(() => vi.unstubAllEnvs())

const entry = { id: 'k', where: 'aws-kms:alias/results', setting: 'RESULTS_ROOT_KEYS' }
const rootsOf = (where = entry.where, timeoutMs = 5_000, metrics = createMetrics()) =>
  createRootKeys(
    { keys: { k: where, local }, active: 'k', setting: entry.setting }, { timeoutMs, metrics })

describe('a root key of AWS KMS', () => {
  it('wraps and unwraps with the encryption context', async () => {
    const roots = rootsOf()
    const wrapped = await roots.wrap(key, context)
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    const inputs = receiver.received.slice(-2).map(({ body }) => JSON.parse(body) as Input)
    expect(inputs).toMatchObject([
      { KeyId: 'alias/results', EncryptionContext: context },
      { KeyId: 'alias/results', EncryptionContext: context },
    ])
    expect(receiver.received.slice(-2).map(({ headers }) => headers['x-amz-target']))
      .toEqual(['TrentService.Encrypt', 'TrentService.Decrypt'])
  })

  it('sends no ciphertext that cannot be one', async () => {
    const count = receiver.received.length
    for (const ciphertext of [Buffer.alloc(0), Buffer.alloc(6_145)]) {
      const wrapped = Buffer.concat([Buffer.from('\u0001k'), ciphertext])
      await failureOf(rootsOf().unwrap(wrapped, context), SealError)
    }
    expect(receiver.received).toHaveLength(count)
  })

  it('is used in the region of its ARN', async () => {
    await rootsOf(`aws-kms:${ARN}`).wrap(key, context)
    expect(receiver.received.at(-1)?.headers.authorization).toContain('/eu-west-3/kms/')
    await rootsOf().wrap(key, context)
    expect(receiver.received.at(-1)?.headers.authorization).toContain('/eu-central-1/kms/')
  })

  it('must have a valid id', () => {
    for (const where of ['aws-kms:', 'aws-kms:a b', 'aws-kms:arn:aws:s3:::bucket?', 'aws-kms:a=']) {
      const create = () => rootsOf(where)
      expect(create).toThrow(ConfigError)
      expect(create).toThrow('RESULTS_ROOT_KEYS: key "k" must be aws-kms:')
    }
  })
})

describe('a root key of AWS KMS that cannot be used', () => {
  it.each([
    [400, 'AccessDeniedException', 'allow kms:Encrypt on the key'],
    [400, 'NotFoundException', 'check the key, the account and AWS_REGION'],
    [400, 'DisabledException', 'enable the key'],
    [400, 'KMSInvalidStateException', 'enable the key in AWS KMS, or cancel its deletion'],
    [400, 'InvalidKeyUsageException', 'use a symmetric key'],
    [400, 'UnrecognizedClientException', 'check the AWS credentials'],
    [400, 'ExpiredTokenException', 'check the AWS credentials'],
    [400, 'ThrottlingException', 'request a higher quota'],
    [429, 'ThrottlingException', 'request a higher quota'],
    [503, 'ServiceUnavailable', 'the status of AWS KMS'],
    [500, 'KMSInternalException', 'the status of AWS KMS'],
    [400, 'AnErrorOfTheFuture', 'the status of AWS KMS'],
  ])('reports status %d, %s', async (status, type, advice) => {
    respond = response => fail(response, status, type)
    await failureOf(rootsOf().wrap(key, context), InfrastructureError,
      `RESULTS_ROOT_KEYS: key "k" (${entry.where}) cannot encrypt (${type}, status ${status}): `,
      advice)
  })

  it('names the missing permission to decrypt', async () => {
    const roots = rootsOf()
    const wrapped = await roots.wrap(key, context)
    respond = response => fail(response, 400, 'AccessDeniedException')
    await failureOf(roots.unwrap(wrapped, context), InfrastructureError,
      'cannot decrypt (AccessDeniedException, status 400): allow kms:Decrypt on the key')
  })

  it('takes status 403 for a missing permission, whatever the body', async () => {
    respond = response => response.writeHead(403).end('<Error>denied by a policy</Error>')
    await failureOf(
      rootsOf().wrap(key, context), InfrastructureError, 'allow kms:Encrypt on the key')
  })

  it('stops the process when another key is configured under its id', async () => {
    const roots = rootsOf()
    const wrapped = await roots.wrap(key, context)
    respond = response => fail(response, 400, 'IncorrectKeyException')
    await failureOf(roots.unwrap(wrapped, context), FatalError)
  })

  it('counts and times its calls, and which of them failed or do not match', async () => {
    const metrics = createMetrics()
    const roots = rootsOf(undefined, undefined, metrics)
    const wrapped = await roots.wrap(key, context)
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    await failureOf(roots.unwrap(wrapped, { ...context, purpose: 'webhooks' }), FatalError)
    for (const [status, type] of [[400, 'IncorrectKeyException'], [500, 'Any']] as const) {
      respond = response => fail(response, status, type)
      await expect(roots.unwrap(wrapped, context)).rejects.toThrow()
    }
    expect(await rootKeyCalls(metrics)).toEqual({
      counted: {
        'results aws-kms encrypt ok': 1,
        'results aws-kms decrypt ok': 1,
        'webhooks aws-kms decrypt invalid': 1,
        'results aws-kms decrypt invalid': 1,
        'results aws-kms decrypt failed': 1,
      },
      timed: { 'aws-kms encrypt': 1, 'aws-kms decrypt': 4 },
    })
  })

  it('reports a server that does not respond', async () => {
    respond = () => {}
    await failureOf(rootsOf(undefined, 50).wrap(key, context), InfrastructureError,
      'no response within 50 ms')
  })

  it('reports a source of credentials that hangs, and works once it responds', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', undefined)
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `http://127.0.0.1:${receiver.port}/role`)
    const role = JSON.stringify({
      AccessKeyId: 'AKIAI44QH8DHBEXAMPLE',
      SecretAccessKey: 'another-secret',
      Token: 'session',
      Expiration: new Date(Date.now() + 3_600_000).toISOString(),
    })
    respond = () => {}
    const roots = rootsOf(undefined, 500)
    await expect(roots.wrap(key, context)).rejects.toThrow('no response within 500 ms')
    respond = (response, body, path) =>
      path === '/role' ? response.end(role) : answer(response, body)
    await eventually(() => roots.wrap(key, context))
    expect(receiver.received.at(-1)?.headers.authorization).toContain('AKIAI44QH8DHBEXAMPLE')
  })

  it('reports a response that is not from AWS KMS, without what it holds', async () => {
    for (const body of ['', '{}', `<${local}>`, `{"Plaintext":"${local}"`]) {
      respond = response => response.end(body)
      expect(await failureOf(rootsOf().wrap(key, context), InfrastructureError))
        .not.toContain(local)
    }
  })

  it('reports missing credentials and a missing region', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', undefined)
    await expect(rootsOf().wrap(key, context)).rejects.toThrow('check the AWS credentials')
    vi.stubEnv('AWS_REGION', undefined)
    await expect(rootsOf().wrap(key, context)).rejects.toThrow('check the network, AWS_REGION')
  })

  it('shows neither keys nor credentials in errors', async () => {
    respond = (response, body) => {
      response.writeHead(400).end(JSON.stringify({ __type: 'ValidationException', message: body }))
    }
    const shown = await failureOf(rootsOf().wrap(key, context), InfrastructureError)
    for (const secret of [key.toString('base64'), 'a-secret-access-key', local]) {
      expect(shown).not.toContain(secret)
    }
  })
})
