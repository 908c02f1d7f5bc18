import { namesTrueOrigins } from './sandbox-origins.ts'

namesTrueOrigins({ rows: 1_000, entries: 340, webhooks: 90 })
