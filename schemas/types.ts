// Generated from the .avsc files by `npm run types`; do not edit.

import type { ServiceSlug } from './api/parts.ts'

/** A privileged action. Its number is its position in the topic, from 1. */
export type AccessEntry = {
  /** UUID, with :result for a result; an entry that was sent twice has two numbers and one id. */
  readonly entryId: string
  /** Redis time in ms. */
  readonly at: number
  /** Id of the organization, or installation. */
  readonly organization: string
  /** key, person, link or operator. */
  readonly actorKind: string
  /** Id of the key, person or session, or the account of an operator. */
  readonly actor: string
  /** What was done, such as key.created. */
  readonly action: string
  /** Id of what it was done to; empty for the organization, or if it has none yet. */
  readonly target: string
  /** IP address, or the machine of a command. */
  readonly address: string
  /** attempted, then done, refused, incomplete or failed. */
  readonly outcome: string
  /** JSON object with a few texts, without contacts and secrets; empty if there are none. */
  readonly details: string
}

/** The state of an organization, API key or partner after a change. */
export type Account = {
  /** Redis key: org:<id>, key:<sha256 of the secret> or partner:<name>. */
  readonly name: string
  /** 1, 2, 3 ... for each name; the highest one is the current state. */
  readonly revision: number
  /** All fields after the change; secrets are hashed, or wrapped by a key of the organization. */
  readonly fields: readonly { readonly name: string, readonly value: string }[]
}

/** A change of the allow, block and suppression lists of an organization. */
export type ContactListChange = {
  /** Organization id. */
  readonly organization: string
  /** 1, 2, 3 ... for each organization, in the order of the changes. */
  readonly version: number
  /** allow, block or suppress; remove for entries that are removed. */
  readonly action: string
  /** The entries, each as 12 bytes of its digest by the key of the organization's lists. */
  readonly digests: Buffer
}

/** The result of a contact, sealed under its partner's key. */
export type FeedResult = {
  /** Identifies the contact; a repeated result has the same id. */
  readonly resultId: string
  /** The partner's own id of the contact. */
  readonly reference: string
  /** Service slug. */
  readonly service: string
  /** The result: a JSON object with the columns of the result file, sealed under the partner's key. */
  readonly sealed: Buffer
}

/** A contact as a partner sends it, its input sealed under the partner's key. */
export type FeedContact = {
  /** The partner's own id of the contact: at most 200 characters, not sealed, so nothing secret. */
  readonly reference: string
  /** Service slug. */
  readonly service: string
  /** ISO 3166 fallback country, empty when there is none. */
  readonly countryCode: string
  /** True bypasses the cache. */
  readonly forceFresh: boolean
  /** Partition that the contact is sent to; a contact in any other partition is ignored as a copy. */
  readonly partition: number
  /** UUID of one run of the producer. */
  readonly sender: string
  /** Increases with every contact of the sender in the partition. */
  readonly sequence: number
  /** When the sender sealed the contact. */
  readonly sentAt: number
  /** The input, sealed under the partner's key; null in an end marker that is no contact. */
  readonly sealed: null | Buffer
  /** True closes the current batch of this partition, including this contact, without waiting for more. */
  readonly end: boolean
}

/** The wrapped data key of a job. */
export type Keys = {
  /** Organization and mode. */
  readonly tenant: string
  /** Job id. */
  readonly job: string
  /** Data key and the key of its header, wrapped by keys of the organization. */
  readonly wrapped: Buffer
}

/** Something happened to a job before its end that webhook endpoints can subscribe to. */
export type JobEvent = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** job.accepted, job.progress or balance.low; the end of a job only when Redis has lost its deliveries. */
  readonly type: string
  /** Of job.progress: tenths of the rows that are finished, 1 to 9; 0 otherwise. */
  readonly tenth: number
  /** Redis time when it happened; null in messages of older releases. */
  readonly at: null | number
}

/** A job ended. */
export type Settled = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: string
  /** completed, cancelled or failed. */
  readonly status: string
  /** Rows of the job. */
  readonly totalRows: number
  /** Rows that could not be normalized, by the preflight. */
  readonly invalidRows: number
  /** Duplicate rows, by the preflight. */
  readonly duplicateRows: number
  /** Rows answered from the cache. */
  readonly cacheHits: number
  /** Rows verified live. */
  readonly freshRecords: number
  /** Rows that ended as invalid. */
  readonly invalidRecords: number
  /** Rows that ended as duplicates. */
  readonly duplicateRecords: number
  /** Rows that ended without a verdict. */
  readonly unknownRecords: number
  /** Rows that were cancelled before their check. */
  readonly cancelledRecords: number
  /** Rows with a verdict. */
  readonly successRecords: number
  /** Rows without a verdict. */
  readonly failedRecords: number
  /** The quoted maximum price. */
  readonly maxQuoteMicros: number
  /** Amount charged. */
  readonly chargedMicros: number
  /** Amount returned to the balance. */
  readonly releasedMicros: number
  /** Redis time of the request. */
  readonly createdAt: number
  /** Redis time when the job ended. */
  readonly endedAt: number
  /** Sealed metadata and webhook address. */
  readonly header: null | Buffer
  /** Partner of a feed job, empty for other jobs; null in messages of older releases. */
  readonly partner: null | string
}

/** A version of the key of an organization for one class. */
export type OrganizationKeyValue = {
  /** Organization id. */
  readonly organization: string
  /** What it protects: results, webhooks or partners. */
  readonly class: string
  /** 1, 2, 3 ... for each class; the highest one wraps. */
  readonly version: number
  /** The key, wrapped by a root key of its class. */
  readonly wrapped: Buffer
  /** The public key that is derived from it. */
  readonly public: Buffer
  /** Unix time in ms. */
  readonly createdAt: number
}

/** The results of a block, by column. */
export type CompletedRows = {
  /** All inputs of the chunk, in an input block. */
  readonly inputs: null | readonly string[]
  /** What the sender gave with each input, in an input block; null if nothing. */
  readonly contacts?: null | { readonly offsets: readonly number[], readonly references: readonly string[] }
  /** Index of each finished row within the chunk. */
  readonly rows: readonly number[]
  /** Row number (from 1) of the original for a duplicate, else 0; empty array when the block has no duplicates. */
  readonly duplicateOf: readonly number[]
  /** Result columns, without row, input and duplicate_of. */
  readonly columns: readonly { readonly name: string, readonly values: readonly string[], readonly at: readonly number[] }[]
}

/** A block: finished rows of one chunk, sealed, with their outcomes in bitmaps. */
export type Completed = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: ServiceSlug
  /** Number of this chunk within the job, from 0. */
  readonly chunk: number
  /** Number of the verification batch plus 2,000 for each earlier attempt; -1 for a block of lookup, -2 for a block that ends unresolvable rows. The seal is bound to it. */
  readonly batch: number
  /** Chunks of the whole job. */
  readonly chunks: number
  /** Index, from 0, of the first row of the chunk within the job. */
  readonly firstRow: number
  /** Rows in this chunk. */
  readonly rows: number
  /** Rows of the whole job. */
  readonly totalRows: number
  /** True when the block holds all inputs of its chunk. */
  readonly inputs: boolean
  /** Rows that this block finishes. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly finished: Buffer
  /** Originals with a verdict from the cache. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly cached: Buffer
  /** Originals with a verdict of a live check, which are charged. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly live: Buffer
  /** Rows with an invalid input. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly invalid: Buffer
  /** Originals that ended without a verdict. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly unknown: Buffer
  /** Originals whose job was cancelled before their check. Duplicates are in none of these bitmaps. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly cancelled: Buffer
  /** Originals that have duplicates. */
  readonly duplicates: readonly { readonly row: number, readonly count: number }[]
  /** How the originals ended, each in exactly one entry; null in blocks of older releases. */
  readonly verdicts: null | readonly { readonly status: string, readonly reason: string, readonly firstRow: number, readonly rows: Buffer }[]
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** Columns of equal length, one entry per row of the chunk. */
export type NormalizedRows = {
  /** As submitted; the API cuts one of more than 1,024 characters. */
  readonly inputs: readonly string[]
  /** What the sender gave with each input, in order; null if nothing. */
  readonly contacts?: null | { readonly offsets: readonly number[], readonly references: readonly string[] }
  /** E.164 or RFC 5322 form, empty for an invalid row. */
  readonly canonicals: readonly string[]
  /** Why the row is invalid, empty otherwise. */
  readonly reasons: readonly string[]
  /** 16 bytes per row, zeros for an invalid row. */
  readonly tokens: Buffer
  /** Tokens of the same rows under the other versions of the cache secret, during a rotation. */
  readonly rotatedTokens?: null | { readonly versions: readonly string[], readonly tokens: Buffer }
}

/** One chunk with the canonical form and token of each row, or the reason why the row is invalid. */
export type Normalized = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: ServiceSlug
  /** Number of this chunk within the job, from 0. */
  readonly chunk: number
  /** Chunks of the whole job. */
  readonly chunks: number
  /** Index, from 0, of the first row of the chunk within the job. */
  readonly firstRow: number
  /** Rows in this chunk. */
  readonly rows: number
  /** Rows of the whole job. */
  readonly totalRows: number
  /** Redis time when the request was claimed; also the time of the quote. */
  readonly submittedAt: number
  /** Redis time after which the job can no longer be accepted. */
  readonly acceptBy: number
  /** True bypasses the cache. */
  readonly forceFresh: boolean
  /** Priced options of the job, sorted; null for none. */
  readonly options?: null | readonly string[]
  /** Version of the cache secret that the tokens are made with. */
  readonly tokenVersion: string
  /** Idempotency key of the request, empty when none was sent. */
  readonly idempotencyKey: string
  /** Sealed metadata and webhook address; only in chunk 0. */
  readonly header: null | Buffer
  /** The feed that the contacts come from; null for a job of the REST API. */
  readonly feed?: null | { readonly partner: string, readonly partition: number, readonly cursor: string, readonly from: number, readonly to: number, readonly unitPriceMicros: null | number }
  /** True for a quote that wants to know which rows stand for the list. */
  readonly sample: boolean
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** Columns of equal length, one entry per row of the verification batch. */
export type RetryRows = {
  /** Index of each row within its chunk. */
  readonly rows: readonly number[]
  /** Number of duplicates of each row. */
  readonly duplicates: readonly number[]
  /** Canonical form of each row. */
  readonly canonicals: readonly string[]
  /** 16 bytes per row. */
  readonly tokens: Buffer
  /** Tokens of the same rows under the other versions of the cache secret, during a rotation. */
  readonly rotatedTokens?: null | { readonly versions: readonly string[], readonly tokens: Buffer }
  /** What the rows wait for, once a host has put off any row of the batch. */
  readonly waits?: null | { readonly due: readonly number[], readonly tries: readonly number[], readonly reasons: readonly string[] }
}

/** A verification batch that is retried later, because providers or hosts put it off. */
export type Retry = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: ServiceSlug
  /** Number of this chunk within the job, from 0. */
  readonly chunk: number
  /** Number of this verification batch within the chunk, from 0. */
  readonly batch: number
  /** Chunks of the whole job. */
  readonly chunks: number
  /** Index, from 0, of the first row of the chunk within the job. */
  readonly firstRow: number
  /** Rows in this chunk. */
  readonly rows: number
  /** Rows of the whole job. */
  readonly totalRows: number
  /** Time of the quote. */
  readonly quotedAt: number
  /** True bypasses the cache. */
  readonly forceFresh: boolean
  /** Priced options of the job, sorted; null for none. */
  readonly options?: null | readonly string[]
  /** Version of the cache secret that the tokens are made with. */
  readonly tokenVersion: string
  /** Maximum age of a cached record for this job. */
  readonly freshnessMs: number
  /** Number of earlier attempts. */
  readonly attempt: number
  /** Earliest time of the attempt; 0 for immediately. */
  readonly notBefore: number
  /** After this time open rows end as unknown; 0 before the first attempt. */
  readonly retryDeadline: number
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** The inputs of one chunk, in order. */
export type SubmittedRows = {
  /** As submitted; the API cuts one of more than 1,024 characters. */
  readonly inputs: readonly string[]
  /** What the sender gave with each input, in order; null if nothing. */
  readonly contacts?: null | { readonly offsets: readonly number[], readonly references: readonly string[] }
}

/** One chunk of a job as the client sent it. */
export type Submitted = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: ServiceSlug
  /** Number of this chunk within the job, from 0. */
  readonly chunk: number
  /** Chunks of the whole job. */
  readonly chunks: number
  /** Index, from 0, of the first row of the chunk within the job. */
  readonly firstRow: number
  /** Rows in this chunk. */
  readonly rows: number
  /** Rows of the whole job. */
  readonly totalRows: number
  /** ISO 3166 fallback country, empty when none was given. */
  readonly country: string
  /** Redis time when the request was claimed; also the time of the quote. */
  readonly submittedAt: number
  /** Redis time after which the job can no longer be accepted. */
  readonly acceptBy: number
  /** True bypasses the cache. */
  readonly forceFresh: boolean
  /** Priced options of the job, sorted; null for none. */
  readonly options?: null | readonly string[]
  /** Version of the cache secret that the tokens are made with. */
  readonly tokenVersion: string
  /** Idempotency key of the request, empty when none was sent. */
  readonly idempotencyKey: string
  /** Sealed metadata and webhook address; only in chunk 0. */
  readonly header: null | Buffer
  /** The feed that the contacts come from; null for a job of the REST API. */
  readonly feed?: null | { readonly partner: string, readonly partition: number, readonly cursor: string, readonly from: number, readonly to: number, readonly unitPriceMicros: null | number }
  /** True for a quote that wants to know which rows stand for the list. */
  readonly sample: boolean
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** Columns of equal length, one entry per row of the verification batch. */
export type ToVerifyRows = {
  /** Index of each row within its chunk. */
  readonly rows: readonly number[]
  /** Number of duplicates of each row. */
  readonly duplicates: readonly number[]
  /** Canonical form of each row. */
  readonly canonicals: readonly string[]
  /** 16 bytes per row. */
  readonly tokens: Buffer
  /** Tokens of the same rows under the other versions of the cache secret, during a rotation. */
  readonly rotatedTokens?: null | { readonly versions: readonly string[], readonly tokens: Buffer }
}

/** A verification batch: rows of one chunk that need live checks. */
export type ToVerify = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: ServiceSlug
  /** Number of this chunk within the job, from 0. */
  readonly chunk: number
  /** Number of this verification batch within the chunk, from 0. */
  readonly batch: number
  /** Chunks of the whole job. */
  readonly chunks: number
  /** Index, from 0, of the first row of the chunk within the job. */
  readonly firstRow: number
  /** Rows in this chunk. */
  readonly rows: number
  /** Rows of the whole job. */
  readonly totalRows: number
  /** Time of the quote. */
  readonly quotedAt: number
  /** True bypasses the cache. */
  readonly forceFresh: boolean
  /** Priced options of the job, sorted; null for none. */
  readonly options?: null | readonly string[]
  /** Version of the cache secret that the tokens are made with. */
  readonly tokenVersion: string
  /** Maximum age of a cached record for this job. */
  readonly freshnessMs: number
  /** Number of earlier attempts. */
  readonly attempt: number
  /** Earliest time of the attempt; 0 for immediately. */
  readonly notBefore: number
  /** After this time open rows end as unknown; 0 before the first attempt. */
  readonly retryDeadline: number
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** One journal entry: a movement of money. */
export type Journal = {
  /** Organization and mode. */
  readonly tenant: string
  /** 1, 2, 3 ... without gaps, for each tenant. */
  readonly seq: number
  /** Unique for each tenant, for example job_01J:reserve. */
  readonly entryId: string
  /** topup, reserve, settle, void or adjust. */
  readonly type: string
  /** Job id, empty for topup and adjust. */
  readonly job: string
  /** Amount moved: funded, reserved, or taken out of the reservation. */
  readonly amountMicros: number
  /** Charged share of the amount; the rest returns to the balance. */
  readonly chargeMicros: number
  /** Available balance after this entry. */
  readonly availableMicros: number
  /** Reserved balance after this entry. */
  readonly reservedMicros: number
  /** Total charged after this entry. */
  readonly chargedMicros: number
  /** Total funded after this entry. */
  readonly fundedMicros: number
  /** Redis time. */
  readonly at: number
  /** Reason of a topup or adjust entry, with a note for the customer JSON of both; job terms (JSON) in a reserve entry. */
  readonly reason: string
  /** Sealed header of the job, in a reserve entry. */
  readonly header: null | Buffer
}

/** State of a wallet after one of its journal entries. */
export type Snapshot = {
  /** Organization and mode. */
  readonly tenant: string
  /** Number of the last journal entry that is included. */
  readonly seq: number
  /** Time of that entry. */
  readonly at: number
  /** Available balance after that entry; -1 in a snapshot that covers nothing, as the journal lacks entries or contradicts itself. A recovery then reads all of it. */
  readonly availableMicros: number
  /** Reserved balance after that entry. */
  readonly reservedMicros: number
  /** Total charged after that entry. */
  readonly chargedMicros: number
  /** Total funded after that entry. */
  readonly fundedMicros: number
  /** Jobs that have a reservation. */
  readonly open: readonly { readonly job: string, readonly seq: number, readonly at: number, readonly amountMicros: number }[]
  /** The newest top-ups and adjustments, oldest first. If there are older ones, the first stands for them and has no id. */
  readonly posted: readonly { readonly id: string, readonly seq: number, readonly amountMicros: number }[]
  /** For each partition of the journal the offset where reading resumes; earlier snapshots include everything before it, except for tenants whose snapshot covers nothing. */
  readonly from: readonly number[]
}

/** The readable value of each topic. */
export type Values = {
  'access.log': AccessEntry
  accounts: Account
  'contact.lists': ContactListChange
  'feeds.finished': FeedResult
  'feeds.submitted': FeedContact
  'job.keys': Keys
  'jobs.events': JobEvent
  'jobs.settled': Settled
  'organization.keys': OrganizationKeyValue
  'rows.completed': Completed
  'rows.normalized': Normalized
  'rows.retry': Retry
  'rows.submitted': Submitted
  'rows.to-verify': ToVerify
  'wallet.journal': Journal
  'wallet.snapshots': Snapshot
}

/** What is sealed in the values of each topic that carries rows. */
export type SealedRows = {
  'rows.completed': CompletedRows
  'rows.normalized': NormalizedRows
  'rows.retry': RetryRows
  'rows.submitted': SubmittedRows
  'rows.to-verify': ToVerifyRows
}
