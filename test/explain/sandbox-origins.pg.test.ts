/** The short form of sandbox-origins.long.test.ts. */
import { namesTrueOrigins } from './sandbox-origins.ts'

namesTrueOrigins({ rows: 60, entries: 30, webhooks: 10 })
