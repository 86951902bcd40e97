/**
 * Shorthand for the JSON of our objects: pieces that nearly all of them have become one character each, which takes a
 * text to a quarter. A piece that is missing here costs memory and nothing else.
 */
const PIECES: readonly string[] = [
  // VirtualIP.spec
  '"spec":{',
  '"address":"',
  '"scope":"External"',
  '"pool":"',
  '"holders":[{',
  '"kind":"Service"',
  '"kind":"Gateway"',
  '"namespace":"',
  '"name":"',
  '"uid":"',
  '"advertisements":{"l2":["',
  '"forwards":[',
  '"protocol":"TCP"',
  '"protocol":"UDP"',
  '"port":',
  '"port":80,',
  '"port":443,',
  '"holder":0',
  '"dataPath":"Belfry"',
  '"backends":[{',
  '"portName":"',
  '"weight":1',
  '"sessionAffinity":"None"',
  '"nodes":"Cluster"',
  '"nodes":"LocalOnly"',
  '"sourceIP":"MayMasquerade"',
  '"sourceRanges":[]',
  '"refuseWeight":0',
  // VirtualIP.status
  '"status":{',
  '"owner":{',
  '"node":"',
  '"interface":"eth0"',
  '"interface":"',
  '"since":"',
  '"term":1',
  '"generation":1',
  '"generation":',
  '"announcers":{"count":1,"names":["',
  // Conditions
  '"conditions":[',
  '"type":"Programmed"',
  '"type":"Announced"',
  '"type":"Accepted"',
  '"type":"ResolvedRefs"',
  '"type":"Conflicted"',
  '"type":"belfry.dev/Programmed"',
  '"type":"belfry.dev/PortsBound"',
  '"type":"belfry.dev/Superseded"',
  '"type":"',
  '"status":"True"',
  '"status":"False"',
  '"observedGeneration":1',
  '"observedGeneration":',
  '"lastTransitionTime":"20',
  '"reason":"Programmed"',
  '"reason":"Answering"',
  '"reason":"Accepted"',
  '"reason":"ResolvedRefs"',
  '"reason":"NoConflicts"',
  '"reason":"AllPorts"',
  '"reason":"NoOlderRoute"',
  '"reason":"',
  '"message":""',
  '"message":"the owner serves the latest change"',
  '"message":"every address is served by the node that answers for it"',
  '"message":"node ',
  '"message":"',
  " answers on eth0",
  // Gateway and ServiceRoute
  '"gatewayClassName":"',
  '"listeners":[',
  '"addresses":[',
  '{"type":"IPAddress","value":"',
  '"supportedKinds":[{"group":"belfry.dev","kind":"ServiceRoute"}]',
  '"attachedRoutes":1',
  '"attachedRoutes":0',
  '"allowedRoutes":{"namespaces":{"from":"Same"}}',
  '"parentRefs":[{',
  '"parentRef":{',
  '"group":"gateway.networking.k8s.io"',
  '"group":""',
  '"backendRef":{',
  '"ports":[{',
  '"parents":[{',
  '"controllerName":"belfry.dev/load-balancer"',
  // Service
  '"type":"LoadBalancer"',
  '"type":"ClusterIP"',
  '"loadBalancerClass":"belfry.dev/load-balancer"',
  '"targetPort":',
  '"nodePort":3',
  '"selector":{',
  '"internalTrafficPolicy":"Cluster"',
  '"externalTrafficPolicy":"Cluster"',
  '"externalTrafficPolicy":"Local"',
  '"allocateLoadBalancerNodePorts":true',
  '"allocateLoadBalancerNodePorts":false',
  '"ipFamilyPolicy":"SingleStack"',
  '"ipFamilies":["IPv4"]',
  '"ipFamilies":["IPv6"]',
  '"clusterIPs":["',
  '"clusterIP":"',
  '"loadBalancer":{"ingress":[{',
  '"ip":"',
  '"ipMode":"Proxy"',
  // What stands between
  "},{",
  '"},{',
  '"}],',
  '"}]},',
  '"},',
  '",',
  "],",
  "},",
];

/** The characters of one byte from here on are signs: a text that is more than printable ASCII is kept as it is. */
const FIRST = 0x80;
const NOT_PLAIN = /[^ -~]/;
const SIGNS = /[\x80-\xff]/g;
/** Before a text that is kept as it is; the JSON of an object never begins with it. */
const VERBATIM = "!";

const signOf = new Map(PIECES.map((piece, i) => [piece, String.fromCharCode(FIRST + i)]));
/** Longer pieces first, since the first alternative that fits is taken. */
const PATTERN = new RegExp(
  PIECES.toSorted((a, b) => b.length - a.length)
    .map((piece) => piece.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"))
    .join("|"),
  "g",
);

/** The JSON of an object in little room. */
export function shorten(json: string): string {
  if (NOT_PLAIN.test(json)) return VERBATIM + json;
  return json.replace(PATTERN, (piece) => signOf.get(piece) ?? piece);
}

/** What `shorten` was given. */
export function lengthen(text: string): string {
  if (text.startsWith(VERBATIM)) return text.slice(1);
  return text.replace(SIGNS, (sign) => PIECES[sign.charCodeAt(0) - FIRST] ?? sign);
}
