#!/usr/bin/env node
// kubectl runs a program of this name for `kubectl belfry`; belfry.js sees by which name it was called.
import "./belfry.js";
