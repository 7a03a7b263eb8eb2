import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { KMS } from '@aws-sdk/client-kms'
import { pythonWith } from '../../support/deploy/tools.ts'
import { endChild } from '../../support/stacks/processes.ts'

const COMMAND = 'from moto.server import main; main()'
const REGION = 'eu-central-1'

/** The Python of an environment that holds moto. */
export const installMoto = pythonWith('moto', import.meta.dirname,
  'The test of root keys in AWS KMS and of backups in S3')

export type Moto = {
  readonly pid: number
  readonly url: string
  /** The variables of a process that uses it as the user. */
  readonly env: Readonly<Record<string, string>>
  /** An administrator of KMS, until `authorize`. */
  readonly kms: KMS
  /** Before `authorize`. */
  readonly createBucket: (name: string) => Promise<void>
  /** Replaces the policy of the user. */
  readonly permit: (policy: object) => Promise<void>
  /** From now on signatures and policies are checked, or no longer. */
  readonly authorize: (isOn: boolean) => Promise<void>
  readonly stop: () => Promise<void>
}

/** A server of moto, which speaks the interface of AWS, with IAM, KMS and S3 in its memory. */
export async function startMoto (python: string, port: number): Promise<Moto> {
  const server = spawn(python, ['-c', COMMAND, '-H', '127.0.0.1', '-p', String(port)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  await ready(server)
  const url = `http://127.0.0.1:${port}`
  const user = await createUser(url)
  const credentials = { accessKeyId: user.id, secretAccessKey: user.secret }
  return {
    pid: server.pid ?? 0,
    url,
    env: {
      AWS_ENDPOINT_URL_KMS: url,
      AWS_REGION: REGION,
      AWS_ACCESS_KEY_ID: user.id,
      AWS_SECRET_ACCESS_KEY: user.secret,
      AWS_EC2_METADATA_DISABLED: 'true',
    },
    kms: new KMS({ endpoint: url, region: REGION, credentials }),
    createBucket: async name => { await send(url, `/${name}`, { service: 's3', method: 'PUT' }) },
    permit: async policy => {
      await iam(url, {
        Action: 'PutUserPolicy',
        UserName: USER,
        PolicyName: 'root-keys',
        PolicyDocument: JSON.stringify(policy),
      })
    },
    authorize: async isOn => {
      const response = await fetch(`${url}/moto-api/reset-auth`, {
        method: 'POST', body: isOn ? '0' : 'inf',
      })
      if (!response.ok) throw new Error(`moto responded with status ${response.status}`)
    },
    stop: () => endChild(server),
  }
}

/** Resolves when it listens. Its lines are read to the end, as a full pipe would block it. */
async function ready (server: ChildProcess): Promise<void> {
  if (server.stderr === null) throw new Error('moto has no standard error')
  const lines: string[] = []
  const listening = Promise.withResolvers<void>()
  const reader = createInterface(server.stderr)
  reader.on('line', line => {
    lines.push(line)
    if (line.includes('Running on')) listening.resolve()
  })
  reader.on('close', () => listening.reject(new Error(`moto has ended:\n${lines.join('\n')}`)))
  await listening.promise
}

const USER = 'service'

async function createUser (url: string): Promise<{ readonly id: string, readonly secret: string }> {
  await iam(url, { Action: 'CreateUser', UserName: USER })
  const text = await iam(url, { Action: 'CreateAccessKey', UserName: USER })
  const [, id = ''] = /<AccessKeyId>(.+?)</.exec(text) ?? []
  const [, secret = ''] = /<SecretAccessKey>(.+?)</.exec(text) ?? []
  return { id, secret }
}

async function iam (url: string, fields: Readonly<Record<string, string>>): Promise<string> {
  const body = new URLSearchParams({ Version: '2010-05-08', ...fields })
  return await send(url, '/', { service: 'iam', method: 'POST', body })
}

type Request = {
  readonly service: 'iam' | 's3', readonly method: string, readonly body?: URLSearchParams,
}

/** No signature is checked before `authorize`: moto finds the service by the scope. */
async function send (url: string, path: string, { service, method, body }: Request) {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      authorization: `AWS4-HMAC-SHA256 Credential=admin/20260101/us-east-1/${service}/` +
        'aws4_request, SignedHeaders=host, Signature=0',
    },
    body,
  })
  const text = await response.text()
  if (response.ok) return text
  throw new Error(`${service} responded with status ${response.status}: ${text}`)
}
