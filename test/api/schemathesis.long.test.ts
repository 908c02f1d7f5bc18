/** SCHEMATHESIS_SECONDS for another length. */
import { isServedAsDescribed } from './as-described.ts'

isServedAsDescribed({ seconds: Number(process.env.SCHEMATHESIS_SECONDS ?? '600') })
