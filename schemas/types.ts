// Made from the .avsc files by `npm run types`; do not edit.

/** An organization, API key or partner after a change. */
export type Account = {
  /** Its key in Redis: org:<id>, key:<sha256 of the secret> or partner:<name>. */
  readonly name: string
  /** 1, 2, 3 ... by name; the highest one is the present state. */
  readonly revision: number
  /** All fields after the change; secrets are hashed or wrapped by a key of the ring. */
  readonly fields: readonly { readonly name: string, readonly value: string }[]
}

/** The result of a contact, sealed under its partner's key. */
export type FeedResult = {
  /** Names the contact: a result that comes again has the same one. */
  readonly resultId: string
  /** What the partner calls the contact. */
  readonly reference: string
  /** Service slug. */
  readonly service: string
  /** The result: a JSON object with the columns of the result file, sealed under the partner's key. */
  readonly sealed: Buffer
}

/** A contact as a partner sends it, its input sealed under the partner's key. */
export type FeedContact = {
  /** What the partner calls the contact; at most 200 characters, and nothing that is secret. */
  readonly reference: string
  /** Service slug. */
  readonly service: string
  /** ISO 3166 fallback country, empty when there is none. */
  readonly countryCode: string
  /** True bypasses the cache. */
  readonly forceFresh: boolean
  /** Partition of the topic that the contact is sent to; in any other one it is a copy. */
  readonly partition: number
  /** UUID of one run of a producer. */
  readonly sender: string
  /** Increases with every contact of the sender in the partition. */
  readonly sequence: number
  /** When the sender sealed the contact. */
  readonly sentAt: number
  /** The input, sealed under the partner's key; null in an end marker that is no contact. */
  readonly sealed: null | Buffer
  /** True closes what was collected of this partition, this contact included, without waiting for more. */
  readonly end: boolean
}

/** The wrapped data key of a job. */
export type Keys = {
  /** Organization and mode. */
  readonly tenant: string
  /** Job id. */
  readonly job: string
  /** Data key, wrapped by a key of the ring. */
  readonly wrapped: Buffer
}

/** A job came to its end. */
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
  /** Rows that could not be normalized. */
  readonly invalidRows: number
  /** Duplicate rows. */
  readonly duplicateRows: number
  /** Rows from the cache. */
  readonly cacheHits: number
  /** Rows verified live. */
  readonly freshRecords: number
  /** Rows that ended as invalid input. */
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
  /** The frozen maximum. */
  readonly maxQuoteMicros: number
  /** What was charged. */
  readonly chargedMicros: number
  /** What returned to the balance. */
  readonly releasedMicros: number
  /** Redis time of the request. */
  readonly createdAt: number
  /** Redis time of the end. */
  readonly endedAt: number
  /** Sealed metadata and webhook address. */
  readonly header: null | Buffer
}

/** The results of a block, by column. */
export type CompletedRows = {
  /** All inputs of the chunk, in an input block. */
  readonly inputs: null | readonly string[]
  /** Which contacts of a feed the inputs are, in an input block; null for a job of the REST interface. */
  readonly contacts?: null | { readonly offsets: readonly number[], readonly references: readonly string[] }
  /** Index of each finished row within the chunk. */
  readonly rows: readonly number[]
  /** Row number (from 1) of the original, 0 for a row that is none; empty array when the block has no duplicate. */
  readonly duplicateOf: readonly number[]
  /** Result columns but row, input and duplicate_of. */
  readonly columns: readonly { readonly name: string, readonly values: readonly string[], readonly at: readonly number[] }[]
}

/** A block: finished rows of one chunk, sealed, with what is counted of them in bitmaps. */
export type Completed = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: string
  /** Number of this chunk within the job, from 0. */
  readonly chunk: number
  /** -1 for the block of lookup, else the part it answers; only binds the seal. */
  readonly part: number
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
  /** Rows this block finishes. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly finished: Buffer
  /** Originals with a verdict from the cache. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly cached: Buffer
  /** Originals with a verdict of a live check, which are charged. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly live: Buffer
  /** Rows that failed preflight. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly invalid: Buffer
  /** Originals that ended without a verdict. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly unknown: Buffer
  /** Originals whose job was cancelled before their check. A duplicate is in none of these. Bitmap of the chunk, bit i (least significant first) is row i. */
  readonly cancelled: Buffer
  /** Originals that have duplicates. */
  readonly copies: readonly { readonly row: number, readonly copies: number }[]
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** Columns of equal length, one entry a row of the chunk. */
export type NormalizedRows = {
  /** Byte for byte as submitted. */
  readonly inputs: readonly string[]
  /** One entry an input of a feed job, in order; null for a job of the REST interface. */
  readonly contacts?: null | { readonly offsets: readonly number[], readonly references: readonly string[] }
  /** E.164 or RFC 5322 form, empty for an invalid row. */
  readonly canonicals: readonly string[]
  /** Why the row is invalid, empty otherwise. */
  readonly reasons: readonly string[]
  /** 16 bytes a row, zero for an invalid row. */
  readonly tokens: Buffer
  /** Tokens of the same rows by other versions of the cache secret, while it is rotated. */
  readonly otherTokens?: null | { readonly versions: readonly string[], readonly tokens: Buffer }
}

/** One chunk with canonical forms and tokens, or the reason why not. */
export type Normalized = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: string
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
  /** When the request was claimed, by Redis time; the time of the quote. */
  readonly submittedAt: number
  /** After this moment, by Redis time, the job can no longer be accepted. */
  readonly acceptBy: number
  /** True bypasses the cache. */
  readonly forceFresh: boolean
  /** Version of the cache secret the tokens are made with. */
  readonly tokenVersion: string
  /** The claimed key of the request, empty when none was sent. */
  readonly idempotencyKey: string
  /** Sealed metadata and webhook address; only in chunk 0. */
  readonly header: null | Buffer
  /** Where the contacts of a feed job came from; null for a job of the REST interface. */
  readonly feed?: null | { readonly partner: string, readonly partition: number, readonly cursor: string, readonly from: number, readonly to: number, readonly unitPriceMicros: null | number }
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** Columns of equal length, one entry a row of the part. */
export type RetryRows = {
  /** Index of each row within its chunk. */
  readonly rows: readonly number[]
  /** Number of duplicates of each row. */
  readonly copies: readonly number[]
  /** Canonical form of each row. */
  readonly canonicals: readonly string[]
  /** 16 bytes a row. */
  readonly tokens: Buffer
  /** Tokens of the same rows by other versions of the cache secret, while it is rotated. */
  readonly otherTokens?: null | { readonly versions: readonly string[], readonly tokens: Buffer }
}

/** A part put off, because providers were not to be had. */
export type Retry = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: string
  /** Number of this chunk within the job, from 0. */
  readonly chunk: number
  /** Number of this part within the chunk, from 0. */
  readonly part: number
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
  /** Version of the cache secret the tokens are made with. */
  readonly tokenVersion: string
  /** How long a record counts as fresh for this job. */
  readonly freshnessMs: number
  /** How often the part was put off before. */
  readonly attempt: number
  /** Not to be tried before this moment; 0 for at once. */
  readonly notBefore: number
  /** After this moment open rows end unknown; 0 before the first try. */
  readonly giveUpAt: number
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** The inputs of one chunk, in order. */
export type SubmittedRows = {
  /** Byte for byte as submitted. */
  readonly inputs: readonly string[]
  /** One entry an input of a feed job, in order; null for a job of the REST interface. */
  readonly contacts?: null | { readonly offsets: readonly number[], readonly references: readonly string[] }
}

/** One chunk of a job as the client sent it. */
export type Submitted = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: string
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
  /** When the request was claimed, by Redis time; the time of the quote. */
  readonly submittedAt: number
  /** After this moment, by Redis time, the job can no longer be accepted. */
  readonly acceptBy: number
  /** True bypasses the cache. */
  readonly forceFresh: boolean
  /** Version of the cache secret the tokens are made with. */
  readonly tokenVersion: string
  /** The claimed key of the request, empty when none was sent. */
  readonly idempotencyKey: string
  /** Sealed metadata and webhook address; only in chunk 0. */
  readonly header: null | Buffer
  /** Where the contacts of a feed job came from; null for a job of the REST interface. */
  readonly feed?: null | { readonly partner: string, readonly partition: number, readonly cursor: string, readonly from: number, readonly to: number, readonly unitPriceMicros: null | number }
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** Columns of equal length, one entry a row of the part. */
export type ToVerifyRows = {
  /** Index of each row within its chunk. */
  readonly rows: readonly number[]
  /** Number of duplicates of each row. */
  readonly copies: readonly number[]
  /** Canonical form of each row. */
  readonly canonicals: readonly string[]
  /** 16 bytes a row. */
  readonly tokens: Buffer
  /** Tokens of the same rows by other versions of the cache secret, while it is rotated. */
  readonly otherTokens?: null | { readonly versions: readonly string[], readonly tokens: Buffer }
}

/** A part of a chunk that needs live checks. */
export type ToVerify = {
  /** Organization and mode, for example org_01J.live. */
  readonly tenant: string
  /** Job id with its job_ prefix. */
  readonly job: string
  /** Service slug. */
  readonly service: string
  /** Number of this chunk within the job, from 0. */
  readonly chunk: number
  /** Number of this part within the chunk, from 0. */
  readonly part: number
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
  /** Version of the cache secret the tokens are made with. */
  readonly tokenVersion: string
  /** How long a record counts as fresh for this job. */
  readonly freshnessMs: number
  /** How often the part was put off before. */
  readonly attempt: number
  /** Not to be tried before this moment; 0 for at once. */
  readonly notBefore: number
  /** After this moment open rows end unknown; 0 before the first try. */
  readonly giveUpAt: number
  /** Registry id of the schema of the sealed rows. */
  readonly rowsSchema: number
  /** The rows: Avro, compressed, sealed under the job key. */
  readonly sealed: Buffer
}

/** One movement of money. */
export type Journal = {
  /** Organization and mode. */
  readonly tenant: string
  /** 1, 2, 3 ... without a gap, by tenant. */
  readonly seq: number
  /** Unique by tenant, for example job_01J:reserve. */
  readonly entryId: string
  /** topup, reserve, settle, void or adjust. */
  readonly type: string
  /** Job id, empty when no job is concerned. */
  readonly job: string
  /** The amount moved: funded, reserved, or taken out of the reservation. */
  readonly amountMicros: number
  /** Of the amount, what is charged; the rest returns. */
  readonly chargeMicros: number
  /** Balance that can be reserved, after this entry. */
  readonly availableMicros: number
  /** Reserved, after this entry. */
  readonly reservedMicros: number
  /** Charged in all, after this entry. */
  readonly chargedMicros: number
  /** Funded in all, after this entry. */
  readonly fundedMicros: number
  /** Redis time. */
  readonly at: number
  /** Why, for topup and adjust. */
  readonly reason: string
  /** Sealed header of the job, in a reserve entry. */
  readonly header: null | Buffer
}

/** A wallet as its journal had it after one of its entries. */
export type Snapshot = {
  /** Organization and mode. */
  readonly tenant: string
  /** Number of the last journal entry that it includes. */
  readonly seq: number
  /** When that entry was made. */
  readonly at: number
  /** Balance that can be reserved, after that entry. */
  readonly availableMicros: number
  /** Reserved, after that entry. */
  readonly reservedMicros: number
  /** Charged in all, after that entry. */
  readonly chargedMicros: number
  /** Funded in all, after that entry. */
  readonly fundedMicros: number
  /** Jobs that have a reservation. */
  readonly open: readonly { readonly job: string, readonly seq: number, readonly at: number, readonly amountMicros: number }[]
  /** All top-ups and adjustments. */
  readonly posted: readonly { readonly id: string, readonly seq: number, readonly amountMicros: number }[]
  /** Of each partition of the journal the offset from which entries are read on: snapshots written earlier include everything before it. */
  readonly from: readonly number[]
}

/** The readable value of each topic. */
export type Values = {
  'accounts': Account
  'feeds.finished': FeedResult
  'feeds.submitted': FeedContact
  'job.keys': Keys
  'jobs.settled': Settled
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
