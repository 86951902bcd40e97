//go:build pins

// The CRDs of the Gateway API are read from this module in the module cache; nothing of it is linked.
package main

import _ "sigs.k8s.io/gateway-api/pkg/consts"
