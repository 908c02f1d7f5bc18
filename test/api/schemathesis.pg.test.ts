/** The short form of schemathesis.long.test.ts. */
import { isServedAsDescribed } from './as-described.ts'

isServedAsDescribed({ seconds: 16 })
