// One file, because files of a worker share modules, and these have the same private stores.
import './root-key-holders.ts'
import './interrupted-erasure.ts'
import './missing-keys.ts'
import './encryption-keys.ts'
